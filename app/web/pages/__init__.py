"""One module per page or family of pages; the order matters where a fixed path and a name could both match."""

from app.web.pages import history, machines, overview, run, runs, servers, suites

ROUTERS = (overview.router, runs.router, run.router, history.router, machines.router, servers.router, suites.router)
