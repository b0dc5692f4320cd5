#include "dataset/tokenizers/pre_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "dataset/tokenizers/json_fields.h"
#include "dataset/tokenizers/unicode.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;
using Step = PreTokenizer::Step;

constexpr std::size_t kNestedMax = 8;  // sequences in sequences
// Patterns of Llama 3, Qwen 2 and GPT-4o: a word takes at most one character before its letters,
// and none looks behind or beyond a space and a letter. So they cut before a space between letters,
// and behind a lone line feed.
constexpr const char* kKnownPatterns[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

bool IsDigit(char32_t code) { return IsNumber(code); }

void AddMatches(const SplitStep& step, std::string_view text, std::vector<MatchRange>* ranges) {
  std::size_t done = 0;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (done < begin) ranges->push_back({done, begin, step.invert});
    ranges->push_back({begin, end, !step.invert});
    done = end;
  };
  if (const auto* test = std::get_if<CharacterTest>(&step.pattern)) {
    for (std::size_t at = 0; at < text.size();) {
      const Character character = FirstCharacter(text.substr(at));
      if ((*test)(character.code)) add(at, at + character.bytes);
      at += character.bytes;
    }
  } else if (const auto* literal = std::get_if<std::string>(&step.pattern)) {
    for (std::size_t at = text.find(*literal); at != std::string_view::npos;
         at = text.find(*literal, done)) {
      add(at, at + literal->size());
    }
  } else {
    const Regex& regex = std::get<Regex>(step.pattern);
    std::size_t begin = 0, end = 0;
    while (done < text.size() && regex.Find(text, done, &begin, &end)) add(begin, end);
  }
  if (done < text.size()) ranges->push_back({done, text.size(), step.invert});
}

std::vector<MatchRange> MergedWithPrevious(const std::vector<MatchRange>& ranges) {
  std::vector<MatchRange> pieces;
  bool before = false;
  for (const MatchRange& range : ranges) {
    if (range.match && !before && !pieces.empty()) {
      pieces.back().end = range.end;
    } else {
      pieces.push_back(range);
    }
    before = range.match;
  }
  return pieces;
}

std::vector<MatchRange> MergedWithNext(const std::vector<MatchRange>& ranges) {
  std::vector<MatchRange> pieces;
  bool behind = false;
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    if (range->match && !behind && !pieces.empty()) {
      pieces.back().begin = range->begin;
    } else {
      pieces.push_back(*range);
    }
    behind = range->match;
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Result<SplitBehavior> BehaviorOf(const Json& json, SplitBehavior otherwise) {
  SHOAL_ASSIGN_OR_RETURN(const std::string name, TextOf(json, "behavior", ""));
  if (name.empty()) return otherwise;
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  return InvalidArgument("its pre_tokenizer has the behavior " + Quoted(name) +
                         ", which shoal does not have");
}

Result<Step> ParseSplit(const Json& json) {
  SplitStep step;
  SHOAL_ASSIGN_OR_RETURN(step.behavior, BehaviorOf(json, SplitBehavior::kIsolated));
  SHOAL_ASSIGN_OR_RETURN(step.invert, FlagOf(json, "invert", false));
  const auto pattern = json.find("pattern");
  if (pattern == json.end() || !pattern->is_object() || pattern->size() != 1) {
    return InvalidArgument("its pre_tokenizer has a Split without a pattern");
  }
  SHOAL_ASSIGN_OR_RETURN(std::string literal, TextOf(*pattern, "String", ""));
  SHOAL_ASSIGN_OR_RETURN(const std::string regex, TextOf(*pattern, "Regex", ""));
  if (!regex.empty()) {
    SHOAL_ASSIGN_OR_RETURN(Regex compiled, Regex::Compile(regex));
    step.pattern = std::move(compiled);
    const bool known = std::find(std::begin(kKnownPatterns), std::end(kKnownPatterns), regex) !=
                       std::end(kKnownPatterns);
    if (known) step.name = regex;
  } else if (!literal.empty()) {
    step.pattern = std::move(literal);
  } else {
    return InvalidArgument("its pre_tokenizer has a Split by nothing");
  }
  return Step(std::move(step));
}

Result<Step> ParseMetaspace(const Json& json) {
  MetaspaceStep step;
  SHOAL_ASSIGN_OR_RETURN(step.replacement, TextOf(json, "replacement", kMetaspace));
  if (step.replacement.empty()) return InvalidArgument("its Metaspace has no replacement");
  SHOAL_ASSIGN_OR_RETURN(step.split, FlagOf(json, "split", true));
  SHOAL_ASSIGN_OR_RETURN(const bool prefix, FlagOf(json, "add_prefix_space", true));
  SHOAL_ASSIGN_OR_RETURN(const std::string scheme,
                         TextOf(json, "prepend_scheme", prefix ? "always" : "never"));
  if (scheme == "always") {
    step.prepend = MetaspaceStep::Prepend::kAlways;
  } else if (scheme == "first") {
    step.prepend = MetaspaceStep::Prepend::kFirst;
  } else if (scheme == "never") {
    step.prepend = MetaspaceStep::Prepend::kNever;
  } else {
    return InvalidArgument("its Metaspace has the prepend_scheme " + Quoted(scheme) +
                           ", which shoal does not have");
  }
  return Step(std::move(step));
}

Result<Step> ParseByteLevel(const Json& json) {
  ByteLevelStep step;
  SHOAL_ASSIGN_OR_RETURN(step.prefix_space, FlagOf(json, "add_prefix_space", true));
  SHOAL_ASSIGN_OR_RETURN(const bool cut, FlagOf(json, "use_regex", true));
  if (cut) {
    SHOAL_ASSIGN_OR_RETURN(step.pattern, WordPattern::Compile());
  }
  return Step(std::move(step));
}

Step TestStep(CharacterTest test, SplitBehavior behavior) {
  SplitStep step;
  step.pattern = test;
  step.behavior = behavior;
  step.name = "characters";
  return Step(std::move(step));
}

// The steps that one kind stands for.
Status AddKind(const std::string& type, const Json& json, std::vector<Step>* steps) {
  const auto add = [steps](Result<Step> step) {
    if (step.ok()) steps->push_back(std::move(*step));
    return step.status();
  };
  if (type == "Split") return add(ParseSplit(json));
  if (type == "Metaspace") return add(ParseMetaspace(json));
  if (type == "ByteLevel") return add(ParseByteLevel(json));
  if (type == "WhitespaceSplit") return add(TestStep(IsWhiteSpace, SplitBehavior::kRemoved));
  if (type == "Digits") {
    SHOAL_ASSIGN_OR_RETURN(const bool each, FlagOf(json, "individual_digits", false));
    return add(TestStep(IsDigit, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  }
  if (type == "Punctuation") {
    SHOAL_ASSIGN_OR_RETURN(const auto behavior, BehaviorOf(json, SplitBehavior::kIsolated));
    return add(TestStep(IsPunctuation, behavior));
  }
  if (type == "BertPreTokenizer") {
    steps->push_back(TestStep(IsWhiteSpace, SplitBehavior::kRemoved));
    return add(TestStep(IsPunctuation, SplitBehavior::kIsolated));
  }
  if (type == "Whitespace") {
    SplitStep step;
    SHOAL_ASSIGN_OR_RETURN(step.pattern, Regex::Compile("\\w+|[^\\w\\s]+"));
    step.behavior = SplitBehavior::kRemoved;
    step.invert = true;
    step.name = type;
    return add(Step(std::move(step)));
  }
  if (type == "CharDelimiterSplit") {
    SplitStep step;
    SHOAL_ASSIGN_OR_RETURN(std::string delimiter, TextOf(json, "delimiter", ""));
    if (delimiter.empty()) return InvalidArgument("its CharDelimiterSplit has no delimiter");
    step.pattern = std::move(delimiter);
    step.behavior = SplitBehavior::kRemoved;
    return add(Step(std::move(step)));
  }
  return InvalidArgument("its pre_tokenizer is or has " + Quoted(type) +
                         ", which shoal does not have");
}

Status AddSteps(const Json& json, std::size_t depth, std::vector<Step>* steps) {
  if (depth > kNestedMax) return InvalidArgument("its pre_tokenizer is nested too deeply");
  const std::string type = TypeOf(json);
  if (type != "Sequence") return AddKind(type, json, steps);
  const auto list = json.find("pretokenizers");
  if (list == json.end() || !list->is_array()) {
    return InvalidArgument("its pre_tokenizer is a Sequence without a list");
  }
  for (const Json& each : *list) SHOAL_RETURN_IF_ERROR(AddSteps(each, depth + 1, steps));
  return Status::Ok();
}

void SplitWords(const SplitStep& step, std::string_view text, WordList* list) {
  std::vector<MatchRange> ranges;
  AddMatches(step, text, &ranges);
  for (const MatchRange& piece : SplitRanges(ranges, step.behavior)) {
    if (piece.begin < piece.end) {
      list->words.push_back(text.substr(piece.begin, piece.end - piece.begin));
    }
  }
}

void Metaspace(const MetaspaceStep& step, std::string_view text, bool first, WordList* list) {
  std::string spaced;
  const bool prefixed = text.starts_with(' ') || text.starts_with(step.replacement) ||
                        step.prepend == MetaspaceStep::Prepend::kNever ||
                        (step.prepend == MetaspaceStep::Prepend::kFirst && !first);
  if (!prefixed) spaced = step.replacement;
  for (const char c : text) c == ' ' ? spaced += step.replacement : spaced += c;
  const std::string& owned = list->owned.emplace_back(std::move(spaced));
  if (!step.split) {
    list->words.push_back(owned);
    return;
  }
  SplitStep at_spaces;
  at_spaces.pattern = step.replacement;
  at_spaces.behavior = SplitBehavior::kMergedWithNext;
  SplitWords(at_spaces, owned, list);
}

void ByteLevelWords(const ByteLevelStep& step, std::string_view text, WordList* list) {
  if (step.prefix_space && !text.starts_with(' ')) {
    text = list->owned.emplace_back(' ' + std::string(text));
  }
  if (!step.pattern) {
    list->words.push_back(text);
    return;
  }
  WordSplitter splitter(step.pattern);
  splitter.Start(text);
  for (std::string_view word; splitter.Next(&word);) list->words.push_back(word);
}

}  // namespace

std::vector<MatchRange> SplitRanges(const std::vector<MatchRange>& ranges, SplitBehavior behavior) {
  std::vector<MatchRange> pieces;
  switch (behavior) {
    case SplitBehavior::kIsolated: return ranges;
    case SplitBehavior::kRemoved:
      std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(pieces),
                   [](const MatchRange& range) { return !range.match; });
      return pieces;
    case SplitBehavior::kMergedWithPrevious: return MergedWithPrevious(ranges);
    case SplitBehavior::kMergedWithNext: return MergedWithNext(ranges);
    case SplitBehavior::kContiguous:
      for (const MatchRange& range : ranges) {
        if (!pieces.empty() && pieces.back().match == range.match) {
          pieces.back().end = range.end;
        } else {
          pieces.push_back(range);
        }
      }
      return pieces;
  }
  return pieces;
}

Result<PreTokenizer> PreTokenizer::Parse(const Json& json) {
  PreTokenizer made;
  if (json.is_null()) return made;
  SHOAL_RETURN_IF_ERROR(AddSteps(json, 0, &made.steps_));
  for (std::size_t i = 0; i + 1 < made.steps_.size(); ++i) {
    if (std::holds_alternative<ByteLevelStep>(made.steps_[i])) {
      return InvalidArgument("its pre_tokenizer has something behind \"ByteLevel\"");
    }
  }
  return made;
}

Result<PreTokenizer> PreTokenizer::ByteLevel(bool prefix_space) {
  PreTokenizer made;
  ByteLevelStep step;
  step.prefix_space = prefix_space;
  SHOAL_ASSIGN_OR_RETURN(step.pattern, WordPattern::Compile());
  made.steps_.emplace_back(std::move(step));
  return made;
}

void PreTokenizer::Run(const Step& step, std::string_view text, bool first, WordList* list) const {
  if (const auto* split = std::get_if<SplitStep>(&step)) return SplitWords(*split, text, list);
  if (const auto* metaspace = std::get_if<MetaspaceStep>(&step)) {
    return Metaspace(*metaspace, text, first, list);
  }
  ByteLevelWords(std::get<ByteLevelStep>(step), text, list);
}

void PreTokenizer::Split(std::string_view text, bool first, WordList* list) const {
  if (text.empty()) return;
  if (steps_.empty()) {
    list->words.push_back(text);
    return;
  }
  if (steps_.size() == 1) return Run(steps_[0], text, first, list);
  std::vector<std::string_view> pieces = {text};
  for (const Step& step : steps_) {
    WordList made;
    made.owned = std::move(list->owned);
    // Only the first piece begins where the text does.
    for (std::size_t i = 0; i < pieces.size(); ++i) Run(step, pieces[i], first && i == 0, &made);
    list->owned = std::move(made.owned);
    pieces = std::move(made.words);
  }
  list->words.insert(list->words.end(), pieces.begin(), pieces.end());
}

bool PreTokenizer::byte_level() const {
  return !steps_.empty() && std::holds_alternative<ByteLevelStep>(steps_.back());
}

bool PreTokenizer::prefix_space() const {
  return byte_level() && std::get<ByteLevelStep>(steps_.back()).prefix_space;
}

void PreTokenizer::set_prefix_space(bool prefix_space) {
  if (byte_level()) std::get<ByteLevelStep>(steps_.back()).prefix_space = prefix_space;
}

bool PreTokenizer::plain_byte_level() const {
  return byte_level() && steps_.size() == 1 && std::get<ByteLevelStep>(steps_[0]).pattern;
}

PreTokenizer::SpaceCuts PreTokenizer::CutsAtSpaces() const {
  bool cuts = false;
  for (const Step& step : steps_) {
    if (const auto* split = std::get_if<SplitStep>(&step)) {
      const auto* literal = std::get_if<std::string>(&split->pattern);
      if (literal != nullptr && *literal == " ") continue;  // a cut behind the space
      if (split->name.empty()) return SpaceCuts::kUnknown;
      const auto* test = std::get_if<CharacterTest>(&split->pattern);
      cuts = cuts || test == nullptr || *test == IsWhiteSpace;
    } else if (const auto* metaspace = std::get_if<MetaspaceStep>(&step)) {
      cuts = cuts || metaspace->split;
    } else {
      cuts = cuts || std::get<ByteLevelStep>(step).pattern != nullptr;
    }
  }
  return cuts ? SpaceCuts::kYes : SpaceCuts::kNo;
}

bool PreTokenizer::CutsAtLines() const {
  return CutsAtSpaces() == SpaceCuts::kYes && !prefix_space() && !metaspace();
}

bool PreTokenizer::metaspace() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<MetaspaceStep>(step); });
}

bool PreTokenizer::adds_metaspace() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    const auto* metaspace = std::get_if<MetaspaceStep>(&step);
    return metaspace != nullptr && metaspace->prepend != MetaspaceStep::Prepend::kNever;
  });
}

}  // namespace shoal::dataset
