"""Where a broker listens: `HOST:PORT` as people write it, `[::1]:9092` for IPv6."""

from __future__ import annotations

from typing import NamedTuple, Self


class Address(NamedTuple):
    """A host and a port; a name is looked up when a connection is made."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `HOST:PORT`; raises `ValueError` that says what is wrong."""
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not host or (":" in host and not bracketed):
            raise ValueError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:9092 or [::1]:9092")
        if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise ValueError(f"{text!r} has no port from 0 to 65535 after the last colon")
        return cls(host[1:-1] if bracketed else host, int(port))

    @classmethod
    def parse_list(cls, text: str) -> list[Self]:
        """Reads `HOST:PORT,HOST:PORT`."""
        return [cls.parse(part) for part in text.split(",")]
