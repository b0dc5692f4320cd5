"""Line and point plots as SVG text; no dependency."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 230, 40, 55
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e0b", "#4a4a4a", "#17a2b8", "#a0522d",
           "#6b8e23", "#c71585", "#556b9f", "#b8860b")


def _ticks(low, high, log):
    if log:
        steps = [m * 10.0 ** e for e in range(-3, 13) for m in (1, 2, 5)]
        return [t for t in steps if low * 0.999 <= t <= high * 1.001]
    raw = (high - low) / 6 or 1
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(s * size for s in (1, 2, 2.5, 5, 10) if s * size >= raw)
    first = math.ceil(low / step) * step
    return [first + i * step for i in range(int((high - first) / step + 1e-9) + 1)]


def _text(x, y, words, anchor="middle", size=12, more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{more}>'
            f"{escape(words)}</text>")


class _Axes:
    def __init__(self, xs, ys, log_x, y_max):
        self.log_x = log_x
        self.x0, self.x1 = min(xs), max(xs)
        if log_x:
            self.x0, self.x1 = self.x0 / 1.15, self.x1 * 1.15
        ys = [min(y, y_max) if y_max else y for y in ys]
        pad = (max(ys) - min(ys)) * 0.05 or 0.01
        self.y0, self.y1 = min(ys) - pad, max(ys) + pad

    def x(self, value):
        a, b, v = self.x0, self.x1, value
        if self.log_x:
            a, b, v = math.log(a), math.log(b), math.log(v)
        return LEFT + (v - a) / ((b - a) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        value = min(value, self.y1)
        return HEIGHT - BOTTOM - (value - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)

    def frame(self, title, x_label, y_label):
        out = [_text((LEFT + WIDTH - RIGHT) / 2, 22, title, size=15)]
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for t in _ticks(self.x0, self.x1, self.log_x):
            x = self.x(t)
            out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" '
                       'stroke="#e4e4e4"/>')
            out.append(_text(x, bottom + 17, f"{t:g}"))
        for t in _ticks(self.y0, self.y1, False):
            y = self.y(t)
            out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" '
                       'stroke="#e4e4e4"/>')
            out.append(_text(LEFT - 7, y + 4, f"{t:.6g}", "end"))
        out.append(f'<rect x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}" '
                   'fill="none" stroke="#888"/>')
        out.append(_text((LEFT + right) / 2, HEIGHT - 14, x_label, size=13))
        middle = (TOP + bottom) / 2
        out.append(_text(18, middle, y_label, size=13,
                         more=f' transform="rotate(-90 18 {middle:.1f})"'))
        return out


def plot(title, x_label, y_label, series, log_x=False, lines=True, y_max=None):
    """SVG text. `series`: (name, [(x, y), ...]) each; `y_max`: higher points lie on the edge."""
    series = [(name, points) for name, points in series if points]
    axes = _Axes([x for _, points in series for x, _ in points],
                 [y for _, points in series for _, y in points], log_x, y_max)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#222">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    out += axes.frame(title, x_label, y_label)
    for i, (name, points) in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="5 3"' if i >= len(COLOURS) else ""
        places = [(axes.x(x), axes.y(y)) for x, y in points]
        if lines and len(places) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                       f'stroke-width="1.8"{dash}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        y = TOP + 8 + 16 * i
        out.append(f'<circle cx="{WIDTH - RIGHT + 16}" cy="{y}" r="4" fill="{colour}"/>')
        out.append(_text(WIDTH - RIGHT + 26, y + 4, name, "start", 11))
    return "\n".join(out + ["</svg>", ""])
