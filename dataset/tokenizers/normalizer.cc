#include "dataset/tokenizers/normalizer.h"

#include <sodium.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "dataset/tokenizers/json_fields.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;
using Step = Normalizer::Step;

constexpr std::size_t kNestedMax = 8;  // sequences in sequences

template <typename Change>
std::string ByCharacter(std::string_view text, Change change) {
  std::string made;
  made.reserve(text.size());
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    change(character.code, text.substr(0, character.bytes), &made);
    text.remove_prefix(character.bytes);
  }
  return made;
}

std::string Without(std::string_view text, bool (*drop)(char32_t)) {
  return ByCharacter(text, [&](char32_t code, std::string_view bytes, std::string* made) {
    if (!drop(code)) *made += bytes;
  });
}

std::string Lower(std::string_view text) {
  return ByCharacter(
      text, [](char32_t code, std::string_view, std::string* made) { AppendLower(code, made); });
}

std::string Nmt(std::string_view text) {
  return ByCharacter(text, [](char32_t code, std::string_view bytes, std::string* made) {
    const bool dropped = (code >= 0x1 && code <= 0x8) || code == 0xb ||
                         (code >= 0xe && code <= 0x1f) || code == 0x7f || code == 0x8f ||
                         code == 0x9f;
    if (dropped) return;
    const bool space = code == 0x9 || code == 0xa || code == 0xc || code == 0xd || code == 0x1680 ||
                       (code >= 0x200b && code <= 0x200f) || code == 0x2028 || code == 0x2029 ||
                       code == 0x2581 || code == 0xfeff || code == 0xfffd;
    *made += space ? std::string_view(" ") : bytes;
  });
}

std::string Stripped(std::string_view text, const StripStep& step) {
  while (step.left && !text.empty()) {
    const Character first = FirstCharacter(text);
    if (!IsWhiteSpace(first.code)) break;
    text.remove_prefix(first.bytes);
  }
  while (step.right && !text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<std::uint8_t>(text[last]) & 0xc0) == 0x80) --last;
    if (!IsWhiteSpace(FirstCharacter(text.substr(last)).code)) break;
    text = text.substr(0, last);
  }
  return std::string(text);
}

std::string Replaced(std::string_view text, const ReplaceStep& step) {
  std::string made;
  std::size_t done = 0;
  for (;;) {
    std::size_t begin = 0, end = 0;
    if (const auto* literal = std::get_if<std::string>(&step.pattern)) {
      begin = text.find(*literal, done);
      if (begin == std::string_view::npos) break;
      end = begin + literal->size();
    } else if (!std::get<Regex>(step.pattern).Find(text, done, &begin, &end)) {
      break;
    }
    made += text.substr(done, begin - done);
    made += step.with;
    done = end;
  }
  made += text.substr(done);
  return made;
}

// Ideographs, which BERT takes for words of their own.
bool IsChinese(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
      {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks), [code](const auto& block) {
    return code >= block.first && code <= block.second;
  });
}

std::string Bert(std::string text, const BertStep& step) {
  if (step.clean) {
    text = ByCharacter(text, [](char32_t code, std::string_view bytes, std::string* made) {
      const bool line = code == '\t' || code == '\n' || code == '\r';
      if (code == 0xfffd || (!line && IsControl(code))) return;
      *made += line || IsWhiteSpace(code) ? std::string_view(" ") : bytes;
    });
  }
  if (step.chinese) {
    text = ByCharacter(text, [](char32_t code, std::string_view bytes, std::string* made) {
      const char* around = IsChinese(code) ? " " : "";
      ((*made += around) += bytes) += around;
    });
  }
  if (step.strip_accents) text = Without(Normalized(NormalForm::kNfd, text), IsNonSpacingMark);
  return step.lowercase ? Lower(text) : text;
}

std::string SentencePieceText(std::string_view text, const SentencePieceStep& step) {
  const std::string_view space = step.escape_spaces ? std::string_view(kMetaspace) : " ";
  std::string made;
  bool begun = false, behind_space = true;
  while (!text.empty()) {
    auto [part, bytes] = step.map ? step.map->Longest(text) : std::pair(std::string_view(), 0UL);
    if (bytes == 0) {
      bytes = FirstCharacter(text).bytes;
      part = text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
    if (!begun && step.remove_extra_spaces && part == " ") continue;
    if (!begun && step.prefix_space) made += space;
    begun = true;
    while (step.remove_extra_spaces && behind_space && part.starts_with(' ')) part.remove_prefix(1);
    for (const char c : part) {
      if (c == ' ') {
        made += space;
      } else {
        made += c;
      }
    }
    if (!part.empty()) behind_space = part.ends_with(' ');
  }
  while (step.remove_extra_spaces && made.ends_with(space)) made.resize(made.size() - space.size());
  return made;
}

struct Applied {
  std::string text;
  std::string operator()(const FormStep& step) const { return Normalized(step.form, text); }
  std::string operator()(const LowercaseStep&) const { return Lower(text); }
  std::string operator()(const StripAccentsStep&) const { return Without(text, IsMark); }
  std::string operator()(const NmtStep&) const { return Nmt(text); }
  std::string operator()(const StripStep& step) const { return Stripped(text, step); }
  std::string operator()(const PrependStep& step) const {
    return text.empty() ? text : step.text + text;
  }
  std::string operator()(const ReplaceStep& step) const { return Replaced(text, step); }
  std::string operator()(const CharsmapStep& step) const { return step.map.Replace(text); }
  std::string operator()(const BertStep& step) const { return Bert(text, step); }
  std::string operator()(const SentencePieceStep& step) const {
    return SentencePieceText(text, step);
  }
};

Result<Step> ParseReplace(const Json& json) {
  ReplaceStep step;
  SHOAL_ASSIGN_OR_RETURN(step.with, TextOf(json, "content", ""));
  const auto pattern = json.find("pattern");
  if (pattern == json.end() || !pattern->is_object() || pattern->size() != 1) {
    return InvalidArgument("Replace has no pattern");
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string literal, TextOf(*pattern, "String", ""));
  SHOAL_ASSIGN_OR_RETURN(const std::string regex, TextOf(*pattern, "Regex", ""));
  if (!literal.empty()) {
    step.pattern = literal;
  } else if (!regex.empty()) {
    SHOAL_ASSIGN_OR_RETURN(Regex compiled, Regex::Compile(regex));
    step.pattern = std::move(compiled);
  } else {
    return InvalidArgument("Replace has a pattern that is neither String nor Regex");
  }
  return Step(std::move(step));
}

Result<Step> ParseCharsmap(const Json& json) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, TextOf(json, "precompiled_charsmap", ""));
  std::string bytes(text.size(), '\0');
  std::size_t size = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), "", &size, nullptr, sodium_base64_VARIANT_ORIGINAL) != 0) {
    return InvalidArgument("precompiled_charsmap is not base64");
  }
  SHOAL_ASSIGN_OR_RETURN(Charsmap map, Charsmap::Parse(std::string_view(bytes).substr(0, size)));
  return Step(CharsmapStep{std::move(map)});
}

Result<Step> ParseBert(const Json& json) {
  BertStep step;
  SHOAL_ASSIGN_OR_RETURN(step.clean, FlagOf(json, "clean_text", true));
  SHOAL_ASSIGN_OR_RETURN(step.chinese, FlagOf(json, "handle_chinese_chars", true));
  SHOAL_ASSIGN_OR_RETURN(step.lowercase, FlagOf(json, "lowercase", true));
  SHOAL_ASSIGN_OR_RETURN(step.strip_accents, FlagOf(json, "strip_accents", step.lowercase));
  return Step(step);
}

Result<Step> ParseStrip(const Json& json) {
  StripStep step;
  SHOAL_ASSIGN_OR_RETURN(step.left, FlagOf(json, "strip_left", true));
  SHOAL_ASSIGN_OR_RETURN(step.right, FlagOf(json, "strip_right", true));
  return Step(step);
}

Result<Step> ParseStep(const std::string& type, const Json& json) {
  constexpr std::pair<const char*, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                           {"NFD", NormalForm::kNfd},
                                                           {"NFKC", NormalForm::kNfkc},
                                                           {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (type == name) return Step(FormStep{form});
  }
  if (type == "Lowercase") return Step(LowercaseStep{});
  if (type == "StripAccents") return Step(StripAccentsStep{});
  if (type == "Nmt") return Step(NmtStep{});
  if (type == "Strip") return ParseStrip(json);
  if (type == "Replace") return ParseReplace(json);
  if (type == "Precompiled") return ParseCharsmap(json);
  if (type == "BertNormalizer") return ParseBert(json);
  if (type == "Prepend") {
    SHOAL_ASSIGN_OR_RETURN(std::string text, TextOf(json, "prepend", ""));
    return Step(PrependStep{std::move(text)});
  }
  return InvalidArgument("its normalizer is or has " + Quoted(type) +
                         ", which shoal does not have");
}

Status AddSteps(const Json& json, std::size_t depth, std::vector<Step>* steps) {
  if (depth > kNestedMax) return InvalidArgument("its normalizer is nested too deeply");
  const std::string type = TypeOf(json);
  if (type != "Sequence") {
    SHOAL_ASSIGN_OR_RETURN(Step step, ParseStep(type, json));
    steps->push_back(std::move(step));
    return Status::Ok();
  }
  const auto list = json.find("normalizers");
  if (list == json.end() || !list->is_array()) {
    return InvalidArgument("its normalizer is a Sequence without a list");
  }
  for (const Json& each : *list) SHOAL_RETURN_IF_ERROR(AddSteps(each, depth + 1, steps));
  return Status::Ok();
}

// Whether a step treats what is left and right of a space between letters alike and apart.
struct Local {
  bool operator()(const FormStep&) const { return true; }
  bool operator()(const LowercaseStep&) const { return true; }
  bool operator()(const StripAccentsStep&) const { return true; }
  bool operator()(const NmtStep&) const { return true; }
  bool operator()(const StripStep&) const { return false; }
  bool operator()(const PrependStep&) const { return false; }
  bool operator()(const ReplaceStep& step) const {
    const auto* literal = std::get_if<std::string>(&step.pattern);
    return literal != nullptr && literal->size() == 1;
  }
  bool operator()(const CharsmapStep&) const { return true; }
  bool operator()(const BertStep&) const { return true; }
  // The half behind gets the prefix in place of the space that it loses.
  bool operator()(const SentencePieceStep& step) const {
    return step.prefix_space == step.remove_extra_spaces;
  }
};

}  // namespace

Result<Normalizer> Normalizer::Parse(const Json& json) {
  Normalizer normalizer;
  if (json.is_null()) return normalizer;
  SHOAL_RETURN_IF_ERROR(AddSteps(json, 0, &normalizer.steps_));
  return normalizer;
}

Normalizer Normalizer::Of(SentencePieceStep step) {
  Normalizer normalizer;
  normalizer.steps_.emplace_back(std::move(step));
  return normalizer;
}

std::string Normalizer::Apply(std::string text) const {
  for (const Step& step : steps_) text = std::visit(Applied{std::move(text)}, step);
  return text;
}

bool Normalizer::LocalAtSpaces() const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::visit(Local{}, step); });
}

}  // namespace shoal::dataset
