"""An operator of kopf: `kopf run boats.py`. It launches, renames and counts boats, and says farewell."""

import logging
import kopf
from kubernetes import client, config

config.load_kube_config()


@kopf.on.startup()
def start(settings, **_):
    settings.posting.level = logging.INFO


@kopf.on.create("boats")
def launched(spec, body, **_):
    kopf.event(body, type="Normal", reason="Launched", message=f"{spec['name']} is afloat")
    return {"name": spec["name"]}


@kopf.on.update("boats", field="spec.name")
def renamed(old, new, **_):
    return {"from": old, "to": new}


@kopf.timer("boats", interval=0.2)
def tick(status, patch, **_):
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.delete("boats")
def sunk(name, namespace, spec, **_):
    farewell = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"farewell-{name}"), data={"name": spec["name"]})
    client.CoreV1Api().create_namespaced_config_map(namespace, farewell)
