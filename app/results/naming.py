"""Names for configurations that are shown together: as short as they can be and still differ."""

from collections import Counter
from collections.abc import Mapping

from app.core.configuration import distinguishing_settings
from app.db.configs import ConfigDescription


def distinct_titles(configs: Mapping[int, ConfigDescription], engine_titles: Mapping[str, str]) -> dict[int, str]:
    """Returns a title for each configuration: model and quantization, the server when there are several, and for equal
    titles the settings in which they differ."""
    has_several_servers = len({config.server for config in configs.values()}) > 1
    titles = {key: _short_title(config, has_several_servers) for key, config in configs.items()}
    counts = Counter(titles.values())
    for shared_title in [title for title, count in counts.items() if count > 1]:
        group = {key: configs[key].snapshot for key, title in titles.items() if title == shared_title}
        phrases = distinguishing_settings(group, engine_titles)
        are_several_alike = sum(not own for own in phrases.values()) > 1
        for key, settings in phrases.items():
            fingerprint = [configs[key].fingerprint[:6]] if are_several_alike else []
            titles[key] = " · ".join([shared_title, *(settings or fingerprint)])
    return titles


def _short_title(config: ConfigDescription, with_server: bool) -> str:
    title = config.snapshot.model_title
    return f"{title} · {config.server}" if with_server else title
