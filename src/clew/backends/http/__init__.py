"""A store on another machine, over HTTP: the row contract as requests (ADR 58). The server's side of it is
`clew.server.rows`."""
