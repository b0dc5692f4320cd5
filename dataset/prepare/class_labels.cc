#include "dataset/prepare/class_labels.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "dataset/data_header.h"

namespace shoal::dataset {
namespace {

constexpr std::size_t kShownBytes = 60;  // of a label in an error

// Digits, with a sign or a point perhaps.
bool LooksLikeNumber(std::string_view text) {
  const bool digit = text.find_first_of("0123456789") != std::string_view::npos;
  return digit && text.find_first_not_of("+-.0123456789") == std::string_view::npos;
}

std::optional<std::uint32_t> ClassNumber(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number >= kMaxClasses) {
    return std::nullopt;
  }
  return number;
}

// On one line.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"" + std::string(text.substr(0, kShownBytes)) + "\"";
  std::replace_if(
      quoted.begin(), quoted.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; },
      ' ');
  return quoted;
}

Status Wrong(const SeenLabel& label, const std::string& what) {
  return InvalidArgument(label.where + ": label " + Quoted(label.text) + " " + what);
}

Result<ClassLabels> AssignNumbers(std::span<const SeenLabel> labels) {
  ClassLabels classes;
  for (const SeenLabel& label : labels) {
    const auto number = ClassNumber(label.text);
    if (!number) {
      return Wrong(label, "is not a whole number from 0 to " + std::to_string(kMaxClasses - 1) +
                              ", as others are; change the label, or name the right column with "
                              "--label-column");
    }
    classes.class_of.push_back(*number);
    if (label.training) classes.classes = std::max(classes.classes, *number + 1);
  }
  return classes;
}

Result<ClassLabels> AssignNames(std::span<const SeenLabel> labels) {
  ClassLabels classes;
  std::map<std::string, std::uint32_t> numbers;
  for (const SeenLabel& label : labels) {
    if (label.text.empty()) return Wrong(label, "is empty; give the text a label, or remove it");
    if (LooksLikeNumber(label.text)) {
      return Wrong(label,
                   "is a number, others are names; change the label, or name the right "
                   "column with --label-column");
    }
    if (label.training) numbers[label.text] = 0;
  }
  if (numbers.size() > kMaxClasses) {
    return InvalidArgument("there are " + std::to_string(numbers.size()) +
                           " different labels, more than " + std::to_string(kMaxClasses) +
                           ": name the right column with --label-column");
  }
  for (auto& [name, number] : numbers) {
    number = classes.classes++;
    classes.names.push_back(name);
  }
  for (const SeenLabel& label : labels) {
    const auto found = numbers.find(label.text);
    classes.class_of.push_back(found == numbers.end() ? 0 : found->second);
  }
  return classes;
}

}  // namespace

Result<ClassLabels> AssignClasses(std::span<const SeenLabel> labels) {
  const auto in_training = [](const SeenLabel& label) { return label.training; };
  if (std::count_if(labels.begin(), labels.end(), in_training) < 2) {
    return InvalidArgument(
        labels.empty() ? "no text has a label: give labelled texts with --text"
                       : "all training texts have the label " + Quoted(labels.front().text) +
                             ": give texts with other labels, or name the right column with "
                             "--label-column");
  }
  for (const SeenLabel& label : labels) {
    if (!label.training) {
      return Wrong(label,
                   "is in no training file; remove it from the validation files, or give "
                   "training texts with it");
    }
  }
  const bool numbers = LooksLikeNumber(labels.front().text);
  return numbers ? AssignNumbers(labels) : AssignNames(labels);
}

}  // namespace shoal::dataset
