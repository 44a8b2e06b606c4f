"""The broker: connections, dispatch, one handler per API, and the place where all rooms are joined."""
