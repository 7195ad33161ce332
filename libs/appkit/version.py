"""The one place the release number stands; the wheel, `--version` and GetPluginInfo all read it."""

__version__ = "0.1.0.dev0"
