"""What is shipped and what guards it: the wheel as users install it, and the checks of `make lint` and `make verify`.

Run by `make verify`: it needs the package index once, for the empty environments.
"""
