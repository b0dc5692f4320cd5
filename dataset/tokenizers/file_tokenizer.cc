// The tokenizer that a TokenizerFile describes: added tokens are found, what is between is
// normalised, cut into words, and each word made into tokens.

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "common/mutex.h"
#include "dataset/added_tokens.h"
#include "dataset/end_token.h"
#include "dataset/tokenizer.h"
#include "dataset/tokenizers/bpe_words.h"
#include "dataset/tokenizers/tokenizer_files.h"
#include "dataset/tokenizers/unicode.h"
#include "dataset/tokenizers/unigram_words.h"
#include "dataset/tokenizers/word_cache.h"
#include "dataset/tokenizers/wordpiece_words.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

std::unique_ptr<const WordModel> NewWordModel(const TokenizerFile& file) {
  if (const auto* bpe = std::get_if<BpeModel>(&file.model)) {
    return NewBpeWords(*bpe, file.model_names);
  }
  if (const auto* unigram = std::get_if<UnigramModel>(&file.model)) {
    return NewUnigramWords(*unigram, file.model_names);
  }
  return NewWordPieceWords(std::get<WordPieceModel>(file.model), file.model_names);
}

// How much of the beginning of `text` is well-formed.
std::size_t WholeBytes(std::string_view text) {
  std::size_t whole = 0;
  while (whole < text.size()) {
    const std::size_t length = Utf8Length(text.substr(whole));
    if (length == 0) break;
    whole += length;
  }
  return whole;
}

class FileTokenizer final : public Tokenizer {
 public:
  FileTokenizer(TokenizerFile file, std::unique_ptr<const AddedTokens> added)
      : file_(std::move(file)),
        model_(NewWordModel(file_)),
        fingerprint_(FingerprintOf(file_)),
        plain_(file_.normalizer.empty() && file_.pre_tokenizer.plain_byte_level()),
        added_(std::move(added)) {
    if (model_->OnlyBegins(kMetaspace)) letter_ = kMetaspace;
    cuts_at_spaces_ = CutsAtSpaces();
    cuts_at_lines_ = cuts_at_spaces_ && file_.pre_tokenizer.CutsAtLines();
    if (const auto* bpe = std::get_if<BpeModel>(&file_.model); bpe != nullptr && bpe->byte_level) {
      byte_ids_ = bpe->byte_ids;
    }
    file_.names = file_.model_names = {};  // only models and fingerprint need them
    file_.model = {};
    file_.added = {};
  }

  void Encode(std::string_view text, std::vector<std::int32_t>* ids) const override {
    std::unique_ptr<WordCache> cache = BorrowCache();
    for (const TextPiece& piece : added_->SplitRaw(text)) {
      if (piece.id >= 0) {
        ids->push_back(piece.id);
      } else {
        EncodeText(piece.text, piece.text.data() == text.data(), cache.get(), ids);
      }
    }
    ReturnCache(std::move(cache));
  }

  std::size_t FindBreak(std::string_view text, std::size_t from) const override {
    if (!cuts_at_spaces_) return text.size();
    for (std::size_t p = FindWordBreak(text, from); p < text.size();
         p = FindWordBreak(text, p + 1)) {
      // A half that begins with a space gets no other one in front.
      if (!cuts_at_lines_ && text[p] != ' ') continue;
      if (!added_->Touches(text, p)) return p;
    }
    return text.size();
  }

  Result<std::string> Decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= file_.bytes.size()) {
        return OutOfRange("token id " + std::to_string(id) + " is outside the vocabulary of " +
                          std::to_string(file_.bytes.size()) +
                          ": use the tokenizer that made the ids");
      }
      text += file_.bytes[static_cast<std::size_t>(id)];
    }
    if (file_.drop_first_space && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(file_.bytes.size());
  }
  std::optional<std::int32_t> end_of_text() const override { return file_.end_of_text; }
  const Wrapping& wrapping() const override { return file_.wrapping; }
  const std::string& fingerprint() const override { return fingerprint_; }
  const std::vector<std::string>& notes() const override { return file_.notes; }

 private:
  bool CutsAtSpaces() const {
    if (!file_.normalizer.LocalAtSpaces()) return false;
    switch (file_.pre_tokenizer.CutsAtSpaces()) {
      case PreTokenizer::SpaceCuts::kUnknown: return false;
      case PreTokenizer::SpaceCuts::kYes: return true;
      case PreTokenizer::SpaceCuts::kNo:  // the model may cut at what spaces become
        return !letter_.empty() && (file_.pre_tokenizer.metaspace() ||
                                    file_.normalizer.Apply("a b").ends_with("a" + letter_ + "b"));
    }
    return false;
  }

  // Of text without added tokens that are found raw. `first`: it begins the whole.
  void EncodeText(std::string_view text, bool first, WordCache* cache,
                  std::vector<std::int32_t>* ids) const {
    if (plain_) return EncodePieces(text, first, cache, ids);
    if (!byte_ids_) {
      const bool whole = WholeBytes(text) == text.size();
      return EncodeWhole(whole ? std::string(text) : WithoutDamage(text), first, cache, ids);
    }
    while (!text.empty()) {
      const std::size_t whole = WholeBytes(text);
      if (whole > 0) {
        EncodeWhole(std::string(text.substr(0, whole)), first, cache, ids);
        text.remove_prefix(whole);
      } else {
        ids->push_back((*byte_ids_)[static_cast<std::uint8_t>(text[0])]);
        text.remove_prefix(1);
      }
      first = false;
    }
  }

  void EncodeWhole(std::string text, bool first, WordCache* cache,
                   std::vector<std::int32_t>* ids) const {
    EncodePieces(file_.normalizer.Apply(std::move(text)), first, cache, ids);
  }

  // Of normalised text.
  void EncodePieces(std::string_view text, bool first, WordCache* cache,
                    std::vector<std::int32_t>* ids) const {
    WordList list;
    for (const TextPiece& piece : added_->SplitNormalized(text)) {
      if (piece.id >= 0) {
        ids->push_back(piece.id);
        continue;
      }
      list.words.clear();
      list.owned.clear();
      const bool begins = first && piece.text.data() == text.data();
      file_.pre_tokenizer.Split(piece.text, begins, &list);
      for (const std::string_view word : list.words) EncodeWord(word, cache, ids);
    }
  }

  void EncodeWord(std::string_view word, WordCache* cache, std::vector<std::int32_t>* ids) const {
    const auto encode = [this](std::string_view part, std::vector<std::int32_t>* made) {
      model_->Encode(part, made);
    };
    while (!letter_.empty() && !word.empty()) {
      std::size_t end = 0;
      while (word.substr(end).starts_with(letter_)) end += letter_.size();
      end = std::min(word.find(letter_, end), word.size());
      cache->Append(word.substr(0, end), ids, encode);
      word.remove_prefix(end);
    }
    if (!word.empty()) cache->Append(word, ids, encode);
  }

  // A warm cache matters, so each is kept for the next Encode.
  std::unique_ptr<WordCache> BorrowCache() const {
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<WordCache> cache = std::move(idle_.back());
        idle_.pop_back();
        return cache;
      }
    }
    return std::make_unique<WordCache>();
  }

  void ReturnCache(std::unique_ptr<WordCache> cache) const {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(cache));
  }

  TokenizerFile file_;
  const std::unique_ptr<const WordModel> model_;
  const std::string fingerprint_;
  const bool plain_;
  const std::unique_ptr<const AddedTokens> added_;
  std::string letter_;  // that only begins tokens: words are cut before it
  bool cuts_at_spaces_ = false;
  bool cuts_at_lines_ = false;
  std::optional<std::array<std::int32_t, 256>> byte_ids_;  // where words are bytes

  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> idle_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> NewFileTokenizer(TokenizerFile file) {
  std::vector<AddedToken> tokens = file.added;
  for (AddedToken& token : tokens) {
    // Found in normalised text, so in that form.
    if (token.normalized) token.content = file.normalizer.Apply(WithoutDamage(token.content));
  }
  std::erase_if(tokens, [](const AddedToken& token) { return token.content.empty(); });
  SHOAL_ASSIGN_OR_RETURN(auto added, AddedTokens::New(tokens));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<FileTokenizer>(std::move(file), std::move(added)));
}

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& directory) {
  SHOAL_ASSIGN_OR_RETURN(TokenizerFile file, LoadTokenizerFile(directory));
  if (!file.end_of_text) {
    SHOAL_ASSIGN_OR_RETURN(file.end_of_text, LoadEndToken(directory, file.names));
  }
  return NewFileTokenizer(std::move(file));
}

}  // namespace shoal::dataset
