"""Line and point plots as SVG text; no dependency."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 230, 40, 55
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e0b", "#4a4a4a", "#17a2b8", "#a0522d",
           "#6b8e23", "#c71585", "#556b9f", "#b8860b")


def _ticks(low, high, log):
    if log:
        digits = (1, 2, 5) if high / low > 10 else (1, 1.5, 2, 3, 4, 5, 7)
        steps = [m * 10.0 ** e for e in range(-3, 13) for m in digits]
        return [t for t in steps if low * 0.999 <= t <= high * 1.001]
    raw = (high - low) / 6 or 1
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(s * size for s in (1, 2, 2.5, 5, 10) if s * size >= raw)
    first = math.ceil(low / step) * step
    return [first + i * step for i in range(int((high - first) / step + 1e-9) + 1)]


def _text(x, y, words, anchor="middle", size=12, more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{more}>'
            f"{escape(words)}</text>")


class _Axis:
    """Values of one direction onto pixels from `start` to `end`."""

    def __init__(self, values, log, start, end):
        self.log, self.start, self.end = log, start, end
        self.low, self.high = min(values), max(values)
        if log:
            self.low, self.high = self.low / 1.15, self.high * 1.15
        else:
            pad = (self.high - self.low) * 0.05 or 0.01
            self.low, self.high = self.low - pad, self.high + pad

    def place(self, value):
        a, b, v = self.low, self.high, value
        if self.log:
            a, b, v = math.log(a), math.log(b), math.log(v)
        return self.start + (v - a) / (b - a) * (self.end - self.start)

    def ticks(self):
        return _ticks(self.low, self.high, self.log)


class _Axes:
    def __init__(self, xs, ys, log_x, log_y):
        self._x = _Axis(xs, log_x, LEFT, WIDTH - RIGHT)
        self._y = _Axis(ys, log_y, HEIGHT - BOTTOM, TOP)
        self.x, self.y = self._x.place, self._y.place

    def frame(self, title, x_label, y_label):
        out = [_text((LEFT + WIDTH - RIGHT) / 2, 22, title, size=15)]
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for t in self._x.ticks():
            x = self.x(t)
            out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" '
                       'stroke="#e4e4e4"/>')
            out.append(_text(x, bottom + 17, f"{t:g}"))
        for t in self._y.ticks():
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


def plot(title, x_label, y_label, series, log_x=False, log_y=False):
    """SVG text. `series`: (name, [(x, y), ...]) each, drawn as points joined by lines."""
    series = [(name, points) for name, points in series if points]
    axes = _Axes([x for _, points in series for x, _ in points],
                 [y for _, points in series for _, y in points], log_x, log_y)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#222">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    out += axes.frame(title, x_label, y_label)
    for i, (name, points) in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="5 3"' if i >= len(COLOURS) else ""
        places = [(axes.x(x), axes.y(y)) for x, y in points]
        if len(places) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                       f'stroke-width="1.8"{dash}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        y = TOP + 8 + 16 * i
        out.append(f'<circle cx="{WIDTH - RIGHT + 16}" cy="{y}" r="4" fill="{colour}"/>')
        out.append(_text(WIDTH - RIGHT + 26, y + 4, name, "start", 11))
    return "\n".join(out + ["</svg>", ""])
