#include "base/log.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <vector>

namespace collab {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: return spdlog::level::off;
  }
  return spdlog::level::off;
}

/// Strangers' words reach the log: no control character leaves it raw, and every line is UTF-8.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t bytes = utf8_character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(bytes, 1));
    if (bytes == 0) {
      out += "\\ufffd";
    } else if (is_control(character)) {  // of two bytes, U+0080 and above: the second one is its number
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(character.back())));
    } else {
      if (character == "\"" || character == "\\") out += '\\';
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out + '"';
}

bool needs_quotes(std::string_view text) {
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '='; };
  return text.empty() || !std::all_of(text.begin(), text.end(), is_plain);
}

struct AsText {
  std::string operator()(const std::string& text) const { return needs_quotes(text) ? in_quotes(text) : text; }
  std::string operator()(bool truth) const { return truth ? "true" : "false"; }
  std::string operator()(double number) const { return fmt::format("{:.6g}", number); }
  std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(std::uint64_t number) const { return fmt::format("{}", number); }
};

struct AsJson : AsText {
  using AsText::operator();
  std::string operator()(const std::string& text) const { return in_quotes(text); }
  std::string operator()(double number) const {
    return std::isfinite(number) ? fmt::format("{}", number) : in_quotes(fmt::format("{}", number));
  }
};

/// Who was killed while it wrote has left half a line, with which the next one would be no JSON either.
void end_torn_line(const std::string& file) {
  std::fstream written(file, std::ios::in | std::ios::out | std::ios::binary);
  if (!written.seekg(-1, std::ios::end) || written.get() == '\n') return;
  written.seekp(0, std::ios::end);
  written.put('\n');
}

}  // namespace

struct Log::Sinks {
  std::unique_ptr<spdlog::logger> text;
  std::unique_ptr<spdlog::logger> file;
  std::string node;
  Observer observer;
};

Log::Log() : sinks_(std::make_unique<Sinks>()) {}
Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

Log::Log(const Options& options) : Log() {
  sinks_->node = options.node;
  if (options.stderr_level != LogLevel::off) {
    sinks_->text = std::make_unique<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    sinks_->text->set_pattern("%H:%M:%S.%e %L %v");
    sinks_->text->set_level(to_spdlog(options.stderr_level));
  }
  if (options.file.empty()) return;
  end_torn_line(options.file);
  try {
    auto sink =
        std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.file, options.file_bytes_max, options.files_max);
    sinks_->file = std::make_unique<spdlog::logger>("", std::move(sink));
    sinks_->file->set_pattern("%v");
    sinks_->file->set_level(spdlog::level::debug);
    sinks_->file->flush_on(spdlog::level::info);
  } catch (const spdlog::spdlog_ex& e) {
    throw Failure(ExitCode::machine, fmt::format("cannot write the log file {}: {}", options.file, e.what()),
                  "choose another place with --log-file, or free some disk space");
  }
}

void Log::observe(Observer observer) {
  sinks_->observer = std::move(observer);
}

void Log::write(LogLevel level, std::string_view event, Fields fields) {
  if (sinks_->observer) sinks_->observer(level, event, fields);
  if (sinks_->text && sinks_->text->should_log(to_spdlog(level))) {
    std::string line = sinks_->node.empty() ? std::string(event) : fmt::format("{} {}", sinks_->node, event);
    for (const LogField& field : fields) line += fmt::format(" {}={}", field.name, std::visit(AsText(), field.value));
    sinks_->text->log(to_spdlog(level), line);
  }
  if (sinks_->file) {
    constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error", "off"};
    const auto unix_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
    std::string line = fmt::format(R"({{"unix_ms":{},"level":"{}","event":{})", unix_ms.count(),
                                   kLevels[static_cast<std::size_t>(level)], in_quotes(event));
    if (!sinks_->node.empty()) line += fmt::format(R"(,"node":{})", in_quotes(sinks_->node));
    for (const LogField& field : fields)
      line += fmt::format(",{}:{}", in_quotes(field.name), std::visit(AsJson(), field.value));
    sinks_->file->log(to_spdlog(level), line + "}");
  }
}

}  // namespace collab
