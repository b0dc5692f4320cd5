#include "model/blocks/disentangled_core.h"

#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "model/blocks/dropout_mask.h"

namespace shoal::model {
namespace {

using Inputs = DisentangledCore::Inputs;

// [rows, heads, tokens, size] to [heads, rows, tokens, size] and back: rows that meet the same
// vectors lie side by side.
at::Tensor Turned(const at::Tensor& x) { return x.transpose(0, 1).contiguous(); }

// [heads, rows, tokens, size] as [heads, rows * tokens, size].
at::Tensor Joined(const at::Tensor& x) {
  return x.reshape({x.size(0), x.size(1) * x.size(2), x.size(3)});
}

// Of [heads, rows, n, n + m - 1] by distance, [heads, rows, n, m]: number (i, j) is at (i, j - i +
// n - 1).
at::Tensor DiagonalsOf(const at::Tensor& x) {
  const std::int64_t n = x.size(2), length = x.size(3);
  return x.as_strided({x.size(0), x.size(1), n, length - n + 1},
                      {x.stride(0), x.stride(1), length - 1, 1}, x.storage_offset() + n - 1);
}

// The inverse; zeros where no pair has that distance.
at::Tensor ByDistance(const at::Tensor& pairs) {
  const at::Tensor all =
      at::zeros({pairs.size(0), pairs.size(1), pairs.size(2), pairs.size(2) + pairs.size(3) - 1},
                pairs.options());
  DiagonalsOf(all).copy_(pairs);
  return all;
}

// Of tokens [first, first + count) on the one side with [other, other + others) on the other: the
// vectors of the distances that they have, other - own.
at::Tensor Reached(const at::Tensor& vectors, std::int64_t first, std::int64_t count,
                   std::int64_t other, std::int64_t others) {
  const std::int64_t tokens = (vectors.size(1) + 1) / 2;
  return vectors.narrow(1, tokens + other - first - count, count + others - 1);
}

template <typename Visit>
void ForPieces(std::int64_t tokens, const Visit& visit) {
  for (std::int64_t first = 0; first < tokens; first += DisentangledCore::kPieceTokens) {
    visit(first, std::min(DisentangledCore::kPieceTokens, tokens - first));
  }
}

Inputs ByHead(const Inputs& inputs) {
  return {Turned(inputs.query), Turned(inputs.key), Turned(inputs.value), inputs.distances};
}

}  // namespace

// Scores of some queries with all keys; heads come before rows.
struct DisentangledCore::Piece {
  std::int64_t first = 0, queries = 0;
  at::Tensor query;          // [heads, rows, queries, size]
  at::Tensor probabilities;  // fp32 [heads, rows, queries, tokens]
  at::Tensor mask;           // of dropout, shaped like it
};

DisentangledCore::Piece DisentangledCore::ScoresOf(const BatchContext& context,
                                                   const Inputs& by_head,
                                                   std::int64_t first) const {
  const std::int64_t tokens = context.tokens;
  Piece piece;
  piece.first = first;
  piece.queries = std::min(kPieceTokens, tokens - first);
  piece.query = by_head.query.narrow(2, first, piece.queries).contiguous();
  const at::Tensor scores = at::matmul(piece.query, by_head.key.transpose(2, 3)).to(at::kFloat);
  const auto meet = [&](const at::Tensor& own, const at::Tensor& vectors, std::int64_t own_first,
                        std::int64_t other, std::int64_t others) {
    const std::int64_t count = own.size(2);
    const at::Tensor reached = Reached(vectors, own_first, count, other, others);
    return DiagonalsOf(at::bmm(Joined(own), reached.transpose(1, 2))
                           .view({own.size(0), own.size(1), count, count + others - 1}));
  };
  if (by_head.distances.key.defined()) {
    scores.add_(meet(piece.query, by_head.distances.key, first, 0, tokens));
  }
  if (by_head.distances.query.defined()) {
    ForPieces(tokens, [&](std::int64_t key, std::int64_t keys) {
      const at::Tensor own = by_head.key.narrow(2, key, keys);
      scores.narrow(3, key, keys)
          .add_(meet(own, by_head.distances.query, key, first, piece.queries).transpose(2, 3));
    });
  }
  piece.probabilities = at::_softmax(scores.mul_(scale_), -1, false);
  const ScoreWindow window = {first, piece.queries, 0, tokens};
  const at::Tensor mask = ScoreMask(context, layer_, scores.size(0), window, scores);
  if (mask.defined()) piece.mask = Turned(mask);
  return piece;
}

at::Tensor DisentangledCore::Forward(const BatchContext& context, const Inputs& inputs) const {
  const Inputs by_head = ByHead(inputs);
  // Heads of a token side by side, as the product behind wants them.
  const at::Tensor output =
      at::empty({context.rows, context.tokens, inputs.query.size(1), inputs.query.size(3)},
                inputs.query.options());
  ForPieces(context.tokens, [&](std::int64_t first, std::int64_t queries) {
    const Piece piece = ScoresOf(context, by_head, first);
    const at::Tensor seen = ApplyDropout(piece.probabilities, piece.mask, context.dropout);
    output.narrow(1, first, queries)
        .copy_(
            at::matmul(seen.to(inputs.value.scalar_type()), by_head.value).permute({1, 2, 0, 3}));
  });
  return output.permute({0, 2, 1, 3});
}

// From the gradient of some queries' scores, scaled, [heads, rows, queries, tokens].
void DisentangledCore::AddBack(const Inputs& by_head, const Piece& piece, const at::Tensor& dscores,
                               const Gradients& sums) const {
  const std::int64_t tokens = dscores.size(3);
  const at::Tensor dquery = sums.query.narrow(2, piece.first, piece.queries);
  dquery.add_(at::matmul(dscores, by_head.key));
  sums.key.add_(at::matmul(dscores.transpose(2, 3), piece.query));
  const auto meet_back = [](const at::Tensor& dpairs, const at::Tensor& own,
                            const at::Tensor& vectors, const at::Tensor& down,
                            const at::Tensor& dvectors) {
    const at::Tensor by_distance = Joined(ByDistance(dpairs));
    down.add_(at::bmm(by_distance, vectors).view(down.sizes()));
    dvectors.add_(at::bmm(by_distance.transpose(1, 2), Joined(own)));
  };
  if (by_head.distances.key.defined()) {
    const auto of = [&](const at::Tensor& vectors) {
      return Reached(vectors, piece.first, piece.queries, 0, tokens);
    };
    meet_back(dscores, piece.query, of(by_head.distances.key), dquery, of(sums.distances.key));
  }
  if (!by_head.distances.query.defined()) return;
  ForPieces(tokens, [&](std::int64_t key, std::int64_t keys) {
    const auto of = [&](const at::Tensor& vectors) {
      return Reached(vectors, key, keys, piece.first, piece.queries);
    };
    meet_back(dscores.narrow(3, key, keys).transpose(2, 3), by_head.key.narrow(2, key, keys),
              of(by_head.distances.query), sums.key.narrow(2, key, keys), of(sums.distances.query));
  });
}

DisentangledCore::Gradients DisentangledCore::Backward(const BatchContext& context,
                                                       const at::Tensor& gradient,
                                                       const Inputs& inputs) const {
  const at::ScalarType dtype = inputs.query.scalar_type();
  const Inputs by_head = ByHead(inputs);
  const at::Tensor dout = Turned(gradient);
  const auto zeros = [](const at::Tensor& like) {
    return like.defined() ? at::zeros_like(like, at::kFloat) : at::Tensor();
  };
  const Gradients sums = {zeros(by_head.query),
                          zeros(by_head.key),
                          zeros(by_head.value),
                          {zeros(inputs.distances.key), zeros(inputs.distances.query)}};
  ForPieces(context.tokens, [&](std::int64_t first, std::int64_t queries) {
    const Piece piece = ScoresOf(context, by_head, first);
    const at::Tensor dpiece = dout.narrow(2, first, queries);
    const at::Tensor seen = ApplyDropout(piece.probabilities, piece.mask, context.dropout);
    sums.value.add_(at::matmul(seen.to(dtype).transpose(2, 3), dpiece));
    const at::Tensor dprobabilities =
        ApplyDropout(at::matmul(dpiece, by_head.value.transpose(2, 3)).to(at::kFloat), piece.mask,
                     context.dropout);
    const at::Tensor dscores =
        at::_softmax_backward_data(dprobabilities, piece.probabilities, -1, at::kFloat);
    AddBack(by_head, piece, dscores.mul_(scale_).to(dtype), sums);
  });
  const auto back = [&](const at::Tensor& sum) { return sum.transpose(0, 1).to(dtype); };
  return {back(sums.query), back(sums.key), back(sums.value), sums.distances};
}

}  // namespace shoal::model
