"""A team that shares a proxy: names with tokens and limits, and a log of who did what. See `docs/proxy/teams.md`."""
