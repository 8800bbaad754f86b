#!/usr/bin/env python3
"""Writes a software bill of materials of the binary, as CycloneDX 1.5.

Usage: cargo metadata --format-version 1 --locked --filter-platform TARGET | packaging/sbom.py Cargo.lock > sbom.json

It lists what is linked into `nagaya`: its normal dependencies on that platform, with licence and the registry's
checksum. Tools of the build and of the tests are not in it. The same input gives the same bytes.
"""

import datetime
import json
import os
import re
import sys
import uuid

ROOT = "nagaya"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    metadata = json.load(sys.stdin)
    with open(sys.argv[1], encoding="utf-8") as file:
        lock = file.read()
    json.dump(document(metadata, lock), sys.stdout, indent=1, sort_keys=True)
    print()


def document(metadata: dict, lock: str) -> dict:
    packages = {package["id"]: package for package in metadata["packages"]}
    edges = {node["id"]: linked(node) for node in metadata["resolve"]["nodes"]}
    members = set(metadata["workspace_members"])
    root = next(id for id in members if packages[id]["name"] == ROOT)
    reached = reachable(root, edges)
    sums = checksums(lock)
    names = {id: purl(packages[id]) for id in reached}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, names[root] + lock)}",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(),
            "component": component(packages[root], "application", sums),
        },
        "components": sorted(
            (component(packages[id], "library", sums) for id in reached if id != root),
            key=lambda part: part["bom-ref"],
        ),
        "dependencies": sorted(
            ({"ref": names[id], "dependsOn": sorted({names[to] for to in edges[id]})} for id in reached),
            key=lambda part: part["ref"],
        ),
    }


def linked(node: dict) -> list[str]:
    """The packages that this one is linked with: normal dependencies, not those of builds and tests."""
    return [to["pkg"] for to in node["deps"] if any(kind["kind"] is None for kind in to["dep_kinds"])]


def reachable(root: str, edges: dict[str, list[str]]) -> set[str]:
    found, waiting = {root}, [root]
    while waiting:
        for to in edges[waiting.pop()]:
            if to not in found:
                found.add(to)
                waiting.append(to)
    return found


def checksums(lock: str) -> dict[tuple[str, str], str]:
    entry = r'name = "([^"]+)"\nversion = "([^"]+)"\n(?:source = "[^"]+"\n)checksum = "([0-9a-f]{64})"'
    return {(name, version): checksum for name, version, checksum in re.findall(entry, lock)}


def component(package: dict, kind: str, sums: dict[tuple[str, str], str]) -> dict:
    name, version = package["name"], package["version"]
    part = {"type": kind, "bom-ref": purl(package), "name": name, "version": version, "purl": purl(package)}
    if package.get("license"):
        # Older crates write a slash between licences to choose from.
        part["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if (name, version) in sums:
        part["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return part


def purl(package: dict) -> str:
    # `+` begins the build metadata of a version and is escaped in such names.
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def timestamp() -> str:
    """The time of the release, not of this run, so that two runs give the same bytes."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


main()
