#include "plot.hpp"

#include "base/error.hpp"
#include "statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

namespace collab::bench {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 420;
constexpr double kLeft = 60;
constexpr double kRight = 330;  // names stand there
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr int kTicks = 5;
constexpr std::array kColours = {"#3366cc", "#dc3912", "#109618", "#ff9900",
                                 "#990099", "#0099c6", "#dd4477", "#66aa00"};

/// Where a value, or a share of them, is in the picture.
struct Scale {
  double most = 1;
  double x(double value) const { return kLeft + (kWidth - kLeft - kRight) * value / most; }
  double y(double share) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * share; }
};

/// `most` and above: 1, 2 or 5 times a power of ten for each part of the axis.
double round_axis(double most) {
  if (!(most > 0)) return 1;
  const double part = most / kTicks;
  const double power = std::pow(10, std::floor(std::log10(part)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power * (1 + 1e-9) >= part) return kTicks * times * power;
  return kTicks * 10 * power;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

std::string text(double x, double y, const char* anchor, const std::string& what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(what));
}

std::string line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1, x2,
                     y2);
}

std::string axes(const Scale& scale, const std::string& unit) {
  std::string out;
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    const double value = share * scale.most;
    out += line(scale.x(value), scale.y(0), scale.x(value), scale.y(1));
    out += line(scale.x(0), scale.y(share), scale.x(scale.most), scale.y(share));
    out += text(scale.x(value), scale.y(0) + 20, "middle", fmt::format("{:.4g}", value));
    out += text(scale.x(0) - 8, scale.y(share) + 4, "end", fmt::format("{:.0f} %", 100 * share));
  }
  return out + text((scale.x(0) + scale.x(scale.most)) / 2, kHeight - 15, "middle", unit);
}

std::string curve(const Scale& scale, std::vector<double> values, const char* colour) {
  std::sort(values.begin(), values.end());
  std::string points = fmt::format("{:.1f},{:.1f}", scale.x(values.front()), scale.y(0));
  for (std::size_t i = 0; i < values.size(); ++i)
    for (const std::size_t below : {i, i + 1})
      points += fmt::format(" {:.1f},{:.1f}", scale.x(values[i]),
                            scale.y(static_cast<double>(below) / static_cast<double>(values.size())));
  points += fmt::format(" {:.1f},{:.1f}", scale.x(scale.most), scale.y(1));
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points, colour);
}

}  // namespace

std::string plot_svg(const std::string& title, const std::string& unit, const std::vector<Series>& series) {
  Scale scale;
  double most = 0;
  for (const Series& one : series)
    for (const double value : one.values) most = std::max(most, value);
  scale.most = round_axis(most);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  out += text(kLeft, 25, "start", title + ": share of all measurements that came to at most so much");
  out += axes(scale, unit);
  std::size_t drawn = 0;
  for (const Series& one : series) {
    if (one.values.empty()) continue;
    const char* colour = kColours[drawn % kColours.size()];
    const double y = kTop + 10 + 18 * static_cast<double>(drawn++);
    out += curve(scale, one.values, colour);
    out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", kWidth - kRight + 20,
                       y - 10, colour);
    out += text(kWidth - kRight + 40, y, "start",
                fmt::format("{}: median {:.4g}, {} times", one.name, median(one.values), one.values.size()));
  }
  return out + "</svg>\n";
}

void write_plot(const std::filesystem::path& file, const std::string& title, const std::string& unit,
                const std::vector<Series>& series) {
  std::ofstream out(file, std::ios::binary);
  out << plot_svg(title, unit, series);
  out.close();
  if (!out)
    throw Failure(ExitCode::machine, fmt::format("the picture {} cannot be written", file.string()),
                  "--plot with a path that can be written");
}

}  // namespace collab::bench
