"""The pages that commands write, each of which stands alone: one style, in light and dark."""

from __future__ import annotations

__all__ = ["render"]


def render(name: str, **content: object) -> str:
    """Return the page that the template ``name`` makes of ``content``."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tfnewton.rerun", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(name).render(**content)
