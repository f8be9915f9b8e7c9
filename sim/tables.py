"""Tables in HTML, as which notebooks show models, trajectories, estimates and results."""

import html
from collections.abc import Sequence

MOST_ROWS = 60  # beyond these a table is cut


def html_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in HTML; a long one ends with the number of rows left out.

    Args:
        caption: text above the table.
        head: headings of the columns.
        rows: cells of each row.
    """
    cells = [_row(row, "td") for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        cells.append(f'<tr><td colspan="{len(head)}">{len(rows) - MOST_ROWS} more</td></tr>')
    body = "".join(cells)
    top = f"<thead>{_row(head, 'th')}</thead>" if any(head) else ""
    title = f"<div>{html.escape(caption)}</div>" if caption else ""  # a <caption> would break at the table's width
    return f"{title}<table>{top}<tbody>{body}</tbody></table>"


def _row(cells: Sequence[object], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
