"""The links that a link carries."""

from sim.model.model import Model


def links_carried(model: Model, top: int) -> list[int]:
    """A link and all that it carries, in order."""
    links = [top]
    for link in range(top + 1, model.num_links):
        if int(model.link_parent[link]) in links:
            links.append(link)
    return links
