#!/usr/bin/env python3
"""Checks what can be checked of the packaging without a container runtime.

Usage: packaging/check.py NAGAYA_BINARY [SBOM...]

Compose files, Kubernetes manifests and bills of materials fit their schemas. The binary takes the settings of every
container. The container of compose.yaml is started as a plain process with the image's environment: it becomes
healthy by the image's own check, answers the probes of the manifests, and ends well when it is told to.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
COMPOSE = [HERE / "docker/compose.yaml", HERE / "docker/compose.cluster.yaml"]
MANIFESTS = [HERE / "kubernetes/one.yaml", HERE / "kubernetes/three.yaml"]
# Far more than a start or an end takes on a busy machine.
PATIENCE_S = 60
SECRETS = {
    "NAGAYA_HTTP__TOKEN": "0123456789abcdef0123456789abcdef",
    "NAGAYA_ROOM__PASSWORD": "hunter2",
    "ENGINES_PASSWORD": "hunter3",
    "token": "0123456789abcdef0123456789abcdef",
    "password": "hunter2",
    "redis": "redis+cluster://u:p@a:6379,b:6379,c:6379",
    "postgres": "postgres://u:p@h/d?sslmode=require",
}


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary, boms = sys.argv[1], sys.argv[2:]
    schemas()
    for bom in boms:
        bill_of_materials(bom)
    image = dockerfile((HERE / "docker/Dockerfile").read_text())
    context_has_what_is_built()
    for name, environment in containers(image):
        takes_settings(binary, name, environment)
    probes = [probe for manifest in MANIFESTS for probe in probes_of(stateful_set(manifest))]
    starts(binary, image, probes)
    print("the packaging is fine")


def schemas() -> None:
    run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *COMPOSE])
    run([sys.executable, "-m", "kubernetes_validate", "--strict", "--quiet", *MANIFESTS])


def bill_of_materials(path: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = pathlib.Path(path).read_text()
    wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    expect(not wrong, f"{path}: {wrong}")
    names = {part["name"] for part in json.loads(text)["components"]}
    expect({"tokio", "rusqlite", "libsqlite3-sys", "ring"} <= names, f"{path} lacks what is surely linked")
    expect(not {"nagaya-testkit", "proptest"} & names, f"{path} has what only tests use")


def dockerfile(text: str) -> dict:
    """The last stage's environment, health check, user and command."""
    last = text.replace("\\\n", " ").rsplit("\nFROM ", 1)[1]
    words = lambda name: re.search(rf"^{name} .*?(\[.*\])$", last, re.MULTILINE).group(1)
    environment = re.search(r"^ENV (.*)$", last, re.MULTILINE).group(1)
    return {
        "environment": dict(pair.split("=", 1) for pair in environment.split()),
        "health": json.loads(words("HEALTHCHECK")),
        "command": json.loads(words("ENTRYPOINT")) + json.loads(words("CMD")),
        "user": int(re.search(r"^USER (\d+):", last, re.MULTILINE).group(1)),
    }


def context_has_what_is_built() -> None:
    """Cargo refuses to build a workspace of which a member is missing, and build scripts read `proto`."""
    allowed = [line[1:] for line in (HERE / "docker/Dockerfile.dockerignore").read_text().split() if line[0] == "!"]
    manifest = (HERE.parent / "Cargo.toml").read_text()
    members = re.search(r"members = \[(.*?)\]", manifest, re.DOTALL).group(1)
    for member in [*re.findall(r'"([^"]+)"', members), "proto"]:
        inside = any(member == entry or member.startswith(f"{entry}/") for entry in allowed)
        expect(inside, f"Dockerfile.dockerignore leaves out {member}")


def containers(image: dict):
    """Each container of ours with its whole environment."""
    for path in COMPOSE:
        for name, service in yaml.safe_load(path.read_text())["services"].items():
            if service["image"] != "nagaya":
                continue
            own = {key: substituted(str(value)) for key, value in service["environment"].items()}
            yield f"{path.name}: {name}", image["environment"] | own
    for path in MANIFESTS:
        spec = stateful_set(path)["spec"]["template"]["spec"]
        container = spec["containers"][0]
        expect(spec["securityContext"]["runAsUser"] == image["user"], f"{path.name}: not the user of the image")
        own = {entry["name"]: value_of(entry) for entry in container["env"]}
        yield path.name, image["environment"] | own


def substituted(text: str) -> str:
    """The text with compose's variables filled in; `$$` is a dollar."""
    filled = re.sub(r"(?<!\$)\$\{(\w+):\?[^}]*\}", lambda found: SECRETS[found.group(1)], text)
    expect(not re.search(r"(?<!\$)\$\{", filled), f"a variable without `:?` may be empty: {text}")
    return filled.replace("$$", "$")


def value_of(entry: dict) -> str:
    return entry["value"] if "value" in entry else SECRETS[entry["valueFrom"]["secretKeyRef"]["key"]]


def stateful_set(path: pathlib.Path) -> dict:
    return next(part for part in yaml.safe_load_all(path.read_text()) if part["kind"] == "StatefulSet")


def probes_of(manifest: dict):
    """The paths and the ports that Kubernetes asks."""
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for kind in ["startupProbe", "livenessProbe", "readinessProbe"]:
        asked = container[kind]["httpGet"]
        yield asked["path"], ports[asked["port"]]


def takes_settings(binary: str, name: str, environment: dict) -> None:
    ran = subprocess.run([binary, "config", "check"], env=environment, capture_output=True, text=True, check=False)
    expect(ran.returncode == 0, f"{name}: {ran.stderr}")
    bare = {key: value for key, value in environment.items() if key != "NAGAYA_HTTP__TOKEN"}
    ran = subprocess.run([binary, "config", "check"], env=bare, capture_output=True, text=True, check=False)
    expect("http.token" in ran.stderr and ran.returncode != 0, f"{name}: open to the network without a token")


def starts(binary: str, image: dict, probes: list) -> None:
    """Runs the container of compose.yaml as a process: other ports and another data folder, else as it is."""
    name, environment = next(found for found in containers(image) if found[0].startswith("compose.yaml"))
    with tempfile.TemporaryDirectory() as folder:
        http, room, ids = free_ports(3)
        listens = {7400: http, 6380: room}
        for key in ["NAGAYA_HTTP__LISTEN", "NAGAYA_ROOM__LISTEN"]:
            address, port = environment[key].rsplit(":", 1)
            environment[key] = f"{address}:{listens[int(port)]}"
        environment["NAGAYA_HOUSE__DATA"] = folder + environment["NAGAYA_HOUSE__DATA"]
        environment["NAGAYA_IDS__LISTEN"] = f"127.0.0.1:{ids}"
        environment["NAGAYA_FANOUT__LISTEN"] = "127.0.0.1:0"
        health = [binary, *image["health"][1:]]
        check = lambda: subprocess.run(health, env=environment, capture_output=True, text=True, check=False)
        expect(check().returncode != 0, f"{name}: healthy before it runs")
        with open(f"{folder}/log", "w+", encoding="utf-8") as log:
            server = subprocess.Popen([binary, *image["command"][1:]], env=environment, stdout=log, stderr=log)
            try:
                wait_until(lambda: check().returncode == 0, server, log)
                for path, port in set(probes):
                    status = get(f"http://127.0.0.1:{listens[port]}{path}")
                    expect(status == 200, f"{path} answered {status}")
                expect(get(f"http://127.0.0.1:{http}/v1/house") == 401, "the token is not asked for")
                server.send_signal(signal.SIGTERM)
                expect(server.wait(PATIENCE_S) == 0, f"{name}: ended with {server.returncode}\n{text_of(log)}")
            finally:
                server.kill()
                server.wait()


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_until(is_so, server: subprocess.Popen, log) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        expect(server.poll() is None, f"ended with {server.returncode}:\n{text_of(log)}")
        expect(time.monotonic() < deadline, f"not healthy after {PATIENCE_S} s:\n{text_of(log)}")
        time.sleep(0.1)


def text_of(log) -> str:
    return pathlib.Path(log.name).read_text(encoding="utf-8")


def get(url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PATIENCE_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def run(words: list) -> None:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, env=os.environ)
    expect(ran.returncode == 0, f"{ran.stdout}{ran.stderr}")


def expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        sys.exit(f"error: {otherwise}")


main()
