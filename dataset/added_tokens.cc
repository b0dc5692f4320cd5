#include "dataset/added_tokens.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dataset/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace shoal::dataset {
namespace {

// Rust's \w and \s, of which `tokenizers` are made: White_Space; Alphabetic (letters, letter
// numbers and circled or squared letters), marks, decimal digits, connectors, joiners.
constexpr char kSpaceClass[] =
    "[\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}]";
constexpr char kWordClass[] =
    "[\\p{L}\\p{Nl}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}]";

// Whether one well-formed character is of a class.
class CharacterClass {
 public:
  ~CharacterClass() { pcre2_code_free(code_); }
  Status Compile(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &offset, nullptr);
    if (code_ != nullptr) return Status::Ok();
    return Internal("PCRE2 refuses a class of characters (error " + std::to_string(error) +
                    "): it was built without Unicode; install the system's libpcre2-8");
  }
  bool Has(std::string_view character) const {
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
        pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
    SHOAL_CHECK(match != nullptr);
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(character.data()), character.size(), 0,
                       0, match.get(), nullptr) > 0;
  }

 private:
  pcre2_code* code_ = nullptr;
};

// The character that ends at `end`; empty if the bytes there are none.
std::string_view CharacterBefore(std::string_view text, std::size_t end) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, end); ++length) {
    const std::string_view character = text.substr(end - length, length);
    if (Utf8Length(character) == length) return character;
  }
  return {};
}

std::string_view CharacterAt(std::string_view text, std::size_t begin) {
  const std::string_view rest = text.substr(begin);
  return rest.substr(0, Utf8Length(rest));
}

// A set of tokens as a tree of bytes.
class Trie {
 public:
  void Add(std::string_view content, std::size_t token) {
    std::uint32_t node = 0;
    for (const char byte : content) node = Child(node, static_cast<std::uint8_t>(byte));
    nodes_[node].token = static_cast<std::int64_t>(token);
    longest_ = std::max(longest_, content.size());
  }

  // Calls `found` with (end, token) for each token that begins at `begin`, the shortest first.
  template <typename Found>
  void Walk(std::string_view text, std::size_t begin, Found found) const {
    std::uint32_t node = 0;
    for (std::size_t end = begin; end < text.size();) {
      node = FindChild(node, static_cast<std::uint8_t>(text[end]));
      if (node == 0) return;
      ++end;
      if (nodes_[node].token >= 0) found(end, static_cast<std::size_t>(nodes_[node].token));
    }
  }

  // Whether any token begins with this byte.
  bool Begins(char byte) const { return first_[static_cast<std::uint8_t>(byte)] != 0; }
  std::size_t longest() const { return longest_; }

 private:
  struct Node {
    std::int64_t token = -1;
    std::vector<std::pair<std::uint8_t, std::uint32_t>> children;  // by byte
  };

  std::uint32_t FindChild(std::uint32_t node, std::uint8_t byte) const {
    if (node == 0) return first_[byte];
    const auto& children = nodes_[node].children;
    const auto at = std::lower_bound(children.begin(), children.end(), std::pair(byte, 0U));
    return at != children.end() && at->first == byte ? at->second : 0;
  }

  std::uint32_t Child(std::uint32_t node, std::uint8_t byte) {
    if (const std::uint32_t known = FindChild(node, byte); known != 0) return known;
    const auto made = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
    if (node == 0) {
      first_[byte] = made;
    } else {
      auto& children = nodes_[node].children;
      const auto at = std::lower_bound(children.begin(), children.end(), std::pair(byte, 0U));
      children.insert(at, {byte, made});
    }
    return made;
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<std::uint32_t, 256> first_{};  // children of the root
  std::size_t longest_ = 0;
};

}  // namespace

struct AddedTokens::Tables {
  std::vector<AddedToken> tokens;
  Trie raw, normalized;
  CharacterClass space, word;

  bool IsWord(std::string_view character) const {
    return !character.empty() && word.Has(character);
  }
  bool IsSpace(std::string_view character) const {
    return !character.empty() && space.Has(character);
  }

  // Appends the pieces of `text` by the tokens of one tree.
  void SplitBy(const Trie& trie, std::string_view text, std::vector<TextPiece>* pieces) const {
    std::size_t done = 0;
    for (std::size_t at = trie.longest() == 0 ? text.size() : 0; at < text.size();) {
      std::size_t end = at, token = 0;
      if (trie.Begins(text[at])) {
        trie.Walk(text, at, [&](std::size_t stop, std::size_t which) {
          end = stop;
          token = which;
        });
      }
      if (end == at) {
        ++at;
        continue;
      }
      const std::size_t begin = at;
      at = end;
      const AddedToken& found = tokens[token];
      if (found.single_word &&
          (IsWord(CharacterBefore(text, begin)) || IsWord(CharacterAt(text, end)))) {
        continue;
      }
      const auto [from, to] = WithSpace(found, text, begin, end, done);
      if (from >= to) continue;  // a token before has taken all of it
      if (done < from) pieces->push_back({text.substr(done, from - done)});
      pieces->push_back({text.substr(from, to - from), found.id});
      done = to;  // also where a token before took more, as there: a tail then counts twice
    }
    if (done < text.size()) pieces->push_back({text.substr(done)});
  }

  // What the token takes of `text`; nothing before `done`.
  std::pair<std::size_t, std::size_t> WithSpace(const AddedToken& token, std::string_view text,
                                                std::size_t begin, std::size_t end,
                                                std::size_t done) const {
    while (token.lstrip && begin > done) {
      const std::string_view before = CharacterBefore(text, begin);
      if (!IsSpace(before)) break;
      begin -= before.size();
    }
    if (token.lstrip) begin = std::max(begin, done);
    while (token.rstrip && end < text.size()) {
      const std::string_view behind = CharacterAt(text, end);
      if (!IsSpace(behind)) break;
      end += behind.size();
    }
    return {begin, end};
  }
};

AddedTokens::AddedTokens(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
AddedTokens::~AddedTokens() = default;

Result<std::unique_ptr<const AddedTokens>> AddedTokens::New(const std::vector<AddedToken>& tokens) {
  auto tables = std::make_unique<Tables>();
  tables->tokens = tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    SHOAL_CHECK(!tokens[i].content.empty());
    (tokens[i].normalized ? tables->normalized : tables->raw).Add(tokens[i].content, i);
  }
  SHOAL_RETURN_IF_ERROR(tables->space.Compile(kSpaceClass));
  SHOAL_RETURN_IF_ERROR(tables->word.Compile(kWordClass));
  return std::unique_ptr<const AddedTokens>(new AddedTokens(std::move(tables)));
}

bool AddedTokens::empty() const { return tables_->tokens.empty(); }

std::vector<TextPiece> AddedTokens::SplitRaw(std::string_view text) const {
  std::vector<TextPiece> pieces;
  tables_->SplitBy(tables_->raw, text, &pieces);
  return pieces;
}

std::vector<TextPiece> AddedTokens::SplitNormalized(std::string_view text) const {
  std::vector<TextPiece> pieces;
  tables_->SplitBy(tables_->normalized, text, &pieces);
  return pieces;
}

std::vector<TextPiece> AddedTokens::Split(std::string_view text) const {
  std::vector<TextPiece> pieces;
  for (const TextPiece& piece : SplitRaw(text)) {
    if (piece.id >= 0) {
      pieces.push_back(piece);
    } else {
      tables_->SplitBy(tables_->normalized, piece.text, &pieces);
    }
  }
  return pieces;
}

bool AddedTokens::Touches(std::string_view text, std::size_t p) const {
  for (const Trie* trie : {&tables_->raw, &tables_->normalized}) {
    const std::size_t longest = trie->longest();
    if (longest == 0) continue;
    for (std::size_t at = p > longest ? p - longest : 0; at <= p && at < text.size(); ++at) {
      bool touches = false;
      trie->Walk(text, at, [&](std::size_t end, std::size_t) { touches = touches || end >= p; });
      if (touches) return true;
    }
  }
  return false;
}

}  // namespace shoal::dataset
