"""How a Proxmox VE host proves who it is."""

import ssl

import httpx

from appkit.errors import Unavailable
from pvekit.settings import ClusterSettings


def ssl_context(settings: ClusterSettings) -> ssl.SSLContext:
    """Verified against `ca_file`, else against the public authorities; not at all with `insecure`. TLS 1.2 at least.

    Unavailable when the CA file cannot be read.
    """
    if settings.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.ca_file is not None:
        try:
            context = ssl.create_default_context(cafile=settings.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise Unavailable(
                f"ca_file {settings.ca_file} of region {settings.region} cannot be used: {error}"
            ) from error
        # Proxmox VE's own root (pve-root-ca.pem) has no key usage extension, which Python 3.13's strict mode demands.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    else:
        context = httpx.create_ssl_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
