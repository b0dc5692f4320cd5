// tokenizer.model as a TokenizerFile.

#include <algorithm>
#include <numeric>
#include <utility>

#include "dataset/sha256.h"
#include "dataset/tokenizers/named_tokens.h"
#include "dataset/tokenizers/sentencepiece_model.h"
#include "dataset/tokenizers/token_parts.h"
#include "dataset/tokenizers/tokenizer_files.h"
#include "dataset/tokenizers/unicode.h"
#include "dataset/tokenizers/vocabulary.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

using Type = SentencePiece::Type;
using Kind = SentencePieceModel::Kind;

// Ranks by score, the highest first; equal scores have one rank.
std::vector<std::uint32_t> RanksOf(const std::vector<SentencePiece>& pieces) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a].score > pieces[b].score; });
  std::vector<std::uint32_t> ranks(pieces.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && pieces[order[i]].score < pieces[order[i - 1]].score) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

// Two tokens beside each other merge wherever they make a third.
std::vector<BpeMerge> MergesOf(const std::vector<SentencePiece>& pieces, const NameIds& ids) {
  std::vector<BpeMerge> merges;
  const std::vector<std::uint32_t> ranks = RanksOf(pieces);
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type != Type::kNormal) continue;
    const std::string_view name = pieces[id].name;
    for (std::size_t cut = std::max<std::size_t>(Utf8Length(name), 1); cut < name.size();
         cut += std::max<std::size_t>(Utf8Length(name.substr(cut)), 1)) {
      const auto left = ids.find(name.substr(0, cut)), right = ids.find(name.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({left->second, right->second, static_cast<std::int32_t>(id), ranks[id]});
    }
  }
  return merges;
}

void SetModel(const SentencePieceModel& model, const NameIds& ids, const NameIds& all,
              std::optional<std::int32_t> unknown, TokenizerFile* file) {
  if (model.kind == Kind::kBpe) {
    BpeModel bpe;
    bpe.byte_level = false;
    bpe.byte_fallback = model.byte_fallback;
    bpe.byte_ids = FallbackIds(all);
    bpe.unknown = unknown;
    bpe.fuse_unknown = true;
    bpe.merges = MergesOf(model.pieces, ids);
    file->model = std::move(bpe);
    return;
  }
  UnigramModel unigram;
  for (const SentencePiece& piece : model.pieces) unigram.scores.push_back(piece.score);
  unigram.unknown = unknown;
  unigram.byte_fallback = model.byte_fallback;
  unigram.byte_ids = FallbackIds(all);
  file->model = std::move(unigram);
}

// Tokens that texts are found to hold as a whole.
void AddUserDefined(const SentencePieceModel& model, TokenizerFile* file) {
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != Type::kUserDefined) continue;
    AddedToken token;
    token.content = model.pieces[id].name;
    token.id = static_cast<std::int32_t>(id);
    Recognise(std::move(token), file);
  }
}

Status SetNormalizer(const SentencePieceModel& model, TokenizerFile* file) {
  SentencePieceStep step;
  step.prefix_space = model.prefix_space;
  step.remove_extra_spaces = model.remove_extra_spaces;
  step.escape_spaces = model.escape_spaces;
  if (!model.charsmap.empty()) {
    SHOAL_ASSIGN_OR_RETURN(step.map, Charsmap::Parse(model.charsmap));
  }
  file->normalizer = Normalizer::Of(std::move(step));
  return Status::Ok();
}

}  // namespace

Result<TokenizerFile> ParseSentencePiece(std::string_view bytes) {
  SHOAL_ASSIGN_OR_RETURN(const SentencePieceModel model, ParseSentencePieceModel(bytes));
  if ((model.kind != Kind::kBpe && model.kind != Kind::kUnigram) || model.space_behind) {
    return InvalidArgument(
        "it is of words or characters, or has spaces behind words: shoal has "
        "SentencePiece's unigram and bpe with spaces in front");
  }
  TokenizerFile file;
  file.wrapped_by_config = true;
  NameIds all, ids;  // of all pieces, and of those that are found in texts
  std::optional<std::int32_t> unknown;
  DecodeRule rule;
  rule.space = file.space = kMetaspace;
  for (const SentencePiece& piece : model.pieces) {
    const auto id = static_cast<std::int32_t>(file.names.size());
    if (!all.emplace(piece.name, id).second) return InvalidArgument("a piece is there twice");
    const bool found = piece.type == Type::kNormal || piece.type == Type::kUserDefined;
    if (found) ids.emplace(piece.name, id);
    if (piece.type == Type::kUnknown) unknown = id;
    rule.byte_fallback = piece.type == Type::kByte;
    file.names.push_back(piece.name);
    file.model_names.push_back(found ? piece.name : "");
    file.bytes.push_back(piece.type == Type::kControl ? piece.name : BytesBy(rule, piece.name));
    if (piece.type == Type::kControl && piece.name == model.end) file.end_of_text = id;
    if (piece.type == Type::kControl && piece.name == model.begin) file.begin_of_text = id;
  }
  file.drop_first_space = model.prefix_space;
  SetModel(model, ids, all, unknown, &file);
  SHOAL_RETURN_IF_ERROR(SetNormalizer(model, &file));
  AddUserDefined(model, &file);
  Sha256 hash;
  hash.Update(bytes);
  file.settings = "tokenizer.model " + DigestToHex(hash.Finish());
  return file;
}

}  // namespace shoal::dataset
