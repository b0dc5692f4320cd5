// The plot of bench_report.h.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "bench/bench_report.h"

namespace shoal::bench {
namespace {

constexpr double kWidth = 1080, kHeight = 540;
constexpr double kLeft = 64, kRight = 460, kTop = 56, kBottom = 56;
constexpr std::array<const char*, 8> kColours = {"#0b6e99", "#d9730d", "#448361", "#9065b0",
                                                 "#c14c8a", "#937264", "#d44c47", "#4b5563"};

std::string Decimal(const char* format, double value) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += c;
  }
  return escaped;
}

// Links of a table are close to each other on the axis: "300 M".
std::string Tick(BitsPerSecond rate) {
  const std::string text = FormatRate(rate);
  return text.substr(0, text.rfind("bit/s"));
}

std::string Point(double x, double y) { return Decimal("%.1f,", x) + Decimal("%.1f ", y); }

std::string Text(double x, double y, const char* anchor, const std::string& more,
                 const std::string& text) {
  return "<text x=\"" + Decimal("%.1f", x) + "\" y=\"" + Decimal("%.1f", y) + "\" text-anchor=\"" +
         anchor + "\" " + more + ">" + Escaped(text) + "</text>\n";
}

std::string Line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + Decimal("%.1f", x1) + "\" y1=\"" + Decimal("%.1f", y1) + "\" x2=\"" +
         Decimal("%.1f", x2) + "\" y2=\"" + Decimal("%.1f", y2) + "\" " + style + "/>\n";
}

class Plot {
 public:
  explicit Plot(const BenchReport& report) : report_(report) {
    for (const BenchRow& row : report.rows) {
      const double rate = Rate(row);
      least_ = std::min(least_, rate);
      most_ = std::max(most_, rate);
      ceiling_ = std::max({ceiling_, report.Fraction(row), Bound(row)});
      lines_[{CodecLabel(row.bench_case.codecs), row.bench_case.schedule}].push_back(&row);
    }
    ceiling_ = std::ceil(ceiling_ * 5 + 0.05) / 5;
  }

  std::string Format() {
    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
                      Decimal("%g ", kWidth) + Decimal("%g", kHeight) +
                      "\" font-family=\"system-ui, sans-serif\" font-size=\"13\" "
                      "fill=\"#374151\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    svg += Axes();
    std::size_t number = 0;
    for (auto& [name, rows] : lines_) {
      std::stable_sort(rows.begin(), rows.end(),
                       [](const BenchRow* a, const BenchRow* b) { return Rate(*a) < Rate(*b); });
      svg += Series(name.first + ", " + name.second, name.second != "1f1b", rows, number++);
    }
    const double y = kTop + 22.0 * static_cast<double>(lines_.size()) + 24;
    svg += Text(kWidth - kRight + 24, y, "start", "font-size=\"12\" fill=\"#6b7280\"",
                "dashed: simulated bound");
    svg += Text(kWidth - kRight + 24, y + 18, "start", "font-size=\"12\" fill=\"#6b7280\"",
                "hollow: CPU was the limit");
    return svg + "</svg>\n";
  }

 private:
  using Rows = std::vector<const BenchRow*>;

  // Unlimited links stand beyond all others.
  static double Rate(const BenchRow& row) {
    const std::uint64_t rate = row.bench_case.link.value;
    return rate == 0 ? 1e11 : static_cast<double>(rate);
  }
  double Bound(const BenchRow& row) const {
    return report_.reference_sequences_per_second > 0
               ? row.bound_sequences_per_second / report_.reference_sequences_per_second
               : 0;
  }
  double X(double rate) const {
    const double width = kWidth - kLeft - kRight;
    if (most_ <= least_) return kLeft + width / 2;
    return kLeft + 16 + (width - 32) * std::log(rate / least_) / std::log(most_ / least_);
  }
  double Y(double fraction) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * fraction / ceiling_;
  }

  std::string Axes() const {
    const BenchOptions& o = report_.options;
    std::string svg = Text(kLeft, 28, "start", "font-size=\"16\" font-weight=\"600\"",
                           "Sequences per second, of raw fp32 on unlimited links");
    svg +=
        Text(kWidth - 24, 28, "end", "fill=\"#6b7280\" font-size=\"12\"",
             std::to_string(o.stages) + " stages, " + std::to_string(o.micro_batches) +
                 " micro-batches, " + std::to_string(o.tokens) + " x " + std::to_string(o.hidden) +
                 ", " + Decimal("%g", o.forward_ms) + " + " + Decimal("%g ms", o.backward_ms));
    for (int i = 0; i <= static_cast<int>(std::lround(ceiling_ * 5)); ++i) {
      const double fraction = i / 5.0;
      const bool one = i == 5;
      svg += Line(kLeft, Y(fraction), kWidth - kRight, Y(fraction),
                  one ? "stroke=\"#9ca3af\" stroke-width=\"1.5\"" : "stroke=\"#e5e7eb\"");
      svg += Text(kLeft - 10, Y(fraction) + 4, "end", "", Decimal("%.1f", fraction));
    }
    std::map<double, std::string> rates;
    for (const BenchRow& row : report_.rows) rates[Rate(row)] = Tick(row.bench_case.link);
    for (const auto& [rate, name] : rates) {
      svg += Line(X(rate), Y(0), X(rate), Y(0) + 5, "stroke=\"#9ca3af\"");
      svg += Text(X(rate), Y(0) + 22, "middle", "font-size=\"12\"", name);
    }
    return svg + Text(kLeft + (kWidth - kLeft - kRight) / 2, kHeight - 10, "middle",
                      "fill=\"#6b7280\" font-size=\"12\"", "upload rate of each peer, bit/s");
  }

  std::string Series(const std::string& name, bool square, const Rows& rows,
                     std::size_t number) const {
    const std::string colour = kColours[number % kColours.size()];
    std::string measured, bound, marks;
    for (const BenchRow* row : rows) {
      const double x = X(Rate(*row));
      const double y = Y(report_.Fraction(*row));
      measured += Point(x, y);
      if (row->bound_sequences_per_second > 0) bound += Point(x, Y(Bound(*row)));
      marks += Mark(x, y, square, row->cpu_limited(), colour);
    }
    const std::string line = "<polyline fill=\"none\" stroke=\"" + colour + "\" points=\"";
    std::string svg = line + bound + "\" stroke-dasharray=\"4 4\" stroke-opacity=\"0.7\"/>\n" +
                      line + measured + "\" stroke-width=\"2\"/>\n" + marks;
    const double y = kTop + 22.0 * static_cast<double>(number);
    const double x = kWidth - kRight + 24;
    svg += Line(x, y, x + 22, y, "stroke=\"" + colour + "\" stroke-width=\"2\"");
    svg += Mark(x + 11, y, square, false, colour);
    return svg + Text(x + 30, y + 4, "start", "font-size=\"12\"", name);
  }

  static std::string Mark(double x, double y, bool square, bool hollow, const std::string& colour) {
    const std::string style = std::string("fill=\"") + (hollow ? "#fff" : colour) + "\" stroke=\"" +
                              colour + "\" stroke-width=\"1.5\"/>\n";
    if (square) {
      return "<rect x=\"" + Decimal("%.1f", x - 4) + "\" y=\"" + Decimal("%.1f", y - 4) +
             "\" width=\"8\" height=\"8\" " + style;
    }
    return "<circle cx=\"" + Decimal("%.1f", x) + "\" cy=\"" + Decimal("%.1f", y) + "\" r=\"4\" " +
           style;
  }

  const BenchReport& report_;
  std::map<std::pair<std::string, std::string>, Rows> lines_;
  double least_ = 1e18, most_ = 0, ceiling_ = 1;
};

}  // namespace

std::string FormatBenchPlot(const BenchReport& report) { return Plot(report).Format(); }

}  // namespace shoal::bench
