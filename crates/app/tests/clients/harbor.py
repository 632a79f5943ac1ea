"""An operator of kopf that is asked about boats: `kopf run harbor.py`. It paints those without a color, and refuses a name."""

import os

import kopf


@kopf.on.startup()
def start(settings, **_):
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="localhost",
        certfile=os.environ["HARBOR_CERTIFICATE"],
        pkeyfile=os.environ["HARBOR_KEY"],
        cafile=os.environ["HARBOR_CERTIFICATE"],
    )
    settings.admission.managed = "harbor.example.com"


@kopf.on.mutate("boats")
def painted(spec, patch, warnings, **_):
    if "color" not in spec:
        patch.spec["color"] = "white"
        warnings.append("a boat without a color is painted white")


@kopf.on.validate("boats")
def named(spec, userinfo, **_):
    if spec.get("name") == "Titanic":
        raise kopf.AdmissionError(f"{userinfo['username']} may not tempt fate", code=451)
