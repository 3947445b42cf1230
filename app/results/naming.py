"""Names for configurations that stand side by side: as short as they can be and still differ."""

from collections import Counter
from collections.abc import Mapping

from app.core.configuration import distinguishing_settings
from app.db.configs import ConfigDescription


def distinct_titles(configs: Mapping[int, ConfigDescription], engine_titles: Mapping[str, str]) -> dict[int, str]:
    """Model and quantization, then the server where there are several, then whatever else tells equal names apart."""
    several_servers = len({each.server for each in configs.values()}) > 1
    titles = {key: _short(each, several_servers) for key, each in configs.items()}
    times = Counter(titles.values())
    for shared in [title for title, count in times.items() if count > 1]:
        group = {key: configs[key].snapshot for key, title in titles.items() if title == shared}
        for key, said in distinguishing_settings(group, engine_titles).items():
            titles[key] = " · ".join([shared, *(said or [configs[key].fingerprint[:6]])])
    return titles


def _short(each: ConfigDescription, with_server: bool) -> str:
    title = each.snapshot.model_title
    return f"{title} · {each.server}" if with_server else title
