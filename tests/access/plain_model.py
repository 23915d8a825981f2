"""Access as plainly as it can be told: names and sets, no rows, no positions but those of a key's last change."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Principal:
    """Who may have keys."""

    enabled: bool = True
    grants: set[tuple[str, str]] = field(default_factory=set)
    keys: dict[str, bool] = field(default_factory=dict)
    """Whether each key holds that there ever was."""


class Access:
    """What stands, and what each event would do: its reason, "unchanged" or "accepted"."""

    def __init__(self, most_grants: int, most_keys: int) -> None:
        self.principals: dict[str, Principal] = {}
        self.roles: dict[str, set[str] | None] = {}
        """None: deleted."""
        self._most_grants, self._most_keys = most_grants, most_keys

    def register(self, name: str) -> str:
        if name not in self.principals:
            self.principals[name] = Principal()
            return "accepted"
        if self.principals[name].enabled:
            return "unchanged"
        self.principals[name].enabled = True
        return "accepted"

    def disable(self, name: str) -> str:
        if name not in self.principals:
            return "unknown-entity"
        principal = self.principals[name]
        if not principal.enabled:
            return "unchanged"
        principal.enabled = False
        principal.keys = dict.fromkeys(principal.keys, False)
        return "accepted"

    def grant(self, name: str, grants: set[tuple[str, str]]) -> str:
        if name not in self.principals:
            return "unknown-entity"
        principal = self.principals[name]
        if grants <= principal.grants:
            return "unchanged"
        if len(grants | principal.grants) > self._most_grants:
            return "too-large"
        principal.grants |= grants
        return "accepted"

    def revoke(self, name: str, grants: set[tuple[str, str]] | None) -> str:
        if name not in self.principals:
            return "unknown-entity"
        principal = self.principals[name]
        going = principal.grants if grants is None else grants & principal.grants
        if not going:
            return "unchanged"
        principal.grants -= set(going)
        return "accepted"

    def issue(self, name: str, key: str) -> str:
        if name not in self.principals:
            return "unknown-entity"
        principal = self.principals[name]
        if not principal.enabled:
            return "disabled"
        if key in principal.keys:
            return "exists"
        if sum(principal.keys.values()) >= self._most_keys:
            return "too-large"
        principal.keys[key] = True
        return "accepted"

    def revoke_key(self, name: str, key: str) -> str:
        if name not in self.principals or key not in self.principals[name].keys:
            return "unknown-entity"
        if not self.principals[name].keys[key]:
            return "unchanged"
        self.principals[name].keys[key] = False
        return "accepted"

    def define(self, role: str, actions: set[str], constants: tuple[str, ...]) -> str:
        if role in constants:
            return "protected"
        if role in self.roles and self.roles[role] is None:
            return "retired"
        if self.roles.get(role) == actions:
            return "unchanged"
        self.roles[role] = actions
        return "accepted"

    def delete(self, role: str, constants: tuple[str, ...]) -> str:
        if role in constants:
            return "protected"
        if role not in self.roles:
            return "unknown-entity"
        if self.roles[role] is None:
            return "unchanged"
        self.roles[role] = None
        return "accepted"
