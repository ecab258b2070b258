"""Configuration of a fleet: an administrator says what machines must run, and each machine reports what it runs.

Every change is signed, and every node checks the changes of the others. A machine can report about itself, and cannot change what it
must run. Nodes exchange files here; any transport will do, since the log trusts none.

    fleet.py FOLDER ADMIN-KEY MACHINE-KEY MACHINE-CERTIFICATE
"""

import pathlib
import sys

import talaria

folder, admin_file, machine_file, certificate = map(pathlib.Path, sys.argv[1:])


class Node:
    """A node of the fleet: a log in a folder, and the key that signs its changes."""

    def __init__(self, log: talaria.Log, key: talaria.Key) -> None:
        self.log, self.key = log, key

    def take_from(self, other: "Node") -> None:
        """Takes the changes of another node."""
        file = folder / "changes.tlg"
        other.log.export_file(file)
        if not self.log.import_file(file):
            raise SystemExit("the other node has sent changes that do not count")
        file.unlink()

    def due(self) -> list[str]:
        """The machines that do not run what they must run."""
        due = []
        for name, _ in self.log.objects():
            fields = self.log.fields(name)
            if fields.get("report-version") != fields.get("version"):
                due.append(f"{name}: {fields.get('report-version')} -> {fields.get('version')}")
        return due


# The administrator makes the log. Machines report in fields that begin with "report-"; "tags" is a set.
key = talaria.Key.from_bytes(admin_file.read_bytes())
log = talaria.Log.create(folder / "admin", key, rules=[("tags", "set")])
admin = Node(log, key)
admin.log.put_many(
    admin.key,
    [("web-1", "version", "1.8"), ("web-1", "tags", "public"), ("web-1", "tags", "europe")],
)
admin.log.grant(admin.key, certificate.read_bytes(), fields="report-*", operations="fields")

# The machine gets a copy. The administrator has told its owner the identity of the log.
admin.log.export_file(folder / "start.tlg")
key = talaria.Key.from_bytes(machine_file.read_bytes())
log, _ = talaria.Log.receive(folder / "machine", folder / "start.tlg", expect=admin.log.id)
machine = Node(log, key)
print("must run:", machine.log.get("web-1", "version"), machine.log.get("web-1", "tags"))
print("due:", machine.due())

# It installs what it must run, and reports. What it must run is not for the machine to say.
machine.log.put(machine.key, "web-1", "report-version", machine.log.get("web-1", "version"))
try:
    machine.log.put(machine.key, "web-1", "version", "0.1")
    raise SystemExit("the machine has changed what it must run")
except talaria.RefusedError as error:
    print("refused:", error)

# Meanwhile the administrator wants a newer version. The changes meet, and both nodes come to the same state.
admin.log.put(admin.key, "web-1", "version", "1.9")
admin.take_from(machine)
machine.take_from(admin)
assert admin.log.stats()["state"] == machine.log.stats()["state"]
assert admin.log.verify() and machine.log.verify()
print("due:", admin.due())

names = {admin.key.certificate: "admin", machine.key.certificate: "machine"}
for change in machine.log.history("web-1"):
    print(f"{names[change.author]:8} {change.operation:7} {change.field or ''} {change.value}")
print(f"{machine.log.stats()['entries']} signed entries on each node")
