"""Names for configurations that stand side by side: as short as they can be and still differ."""

from collections import Counter
from collections.abc import Mapping

from app.configuration import SETTINGS, Snapshot, setting_title, show
from app.store.configs import Described


def distinct_titles(configs: Mapping[int, Described], engine_titles: Mapping[str, str]) -> dict[int, str]:
    """Model and quantization, then the server where there are several, then whatever else tells equal names apart."""
    several_servers = len({each.server for each in configs.values()}) > 1
    titles = {key: _short(each, several_servers) for key, each in configs.items()}
    times = Counter(titles.values())
    for shared in [title for title, count in times.items() if count > 1]:
        group = {key: configs[key].snapshot for key, title in titles.items() if title == shared}
        details = {key: _details(snapshot, engine_titles) for key, snapshot in group.items()}
        differing = {name for name in _names(details) if len({each.get(name) for each in details.values()}) > 1}
        for key, each in details.items():
            said = [each[name] for name in each if name in differing]
            titles[key] = " · ".join([shared, *said]) if said else f"{shared} · {group[key].fingerprint[:6]}"
    return titles


def _short(each: Described, with_server: bool) -> str:
    title = f"{each.snapshot.model} {each.snapshot.quantization or ''}".strip()
    return f"{title} · {each.server}" if with_server else title


def _details(snapshot: Snapshot, engine_titles: Mapping[str, str]) -> dict[str, str]:
    engine = engine_titles.get(snapshot.engine, snapshot.engine)
    details = {"engine": f"{engine} {snapshot.engine_version or ''}".strip()}
    known = [key for key in SETTINGS if key in snapshot.settings]
    for key in known + sorted(set(snapshot.settings) - set(SETTINGS)):
        details[key] = f"{setting_title(key)} {show(snapshot.settings[key])}"
    if snapshot.labels:
        details["labels"] = ", ".join(sorted(snapshot.labels))
    return details


def _names(details: Mapping[int, Mapping[str, str]]) -> set[str]:
    return {name for each in details.values() for name in each}
