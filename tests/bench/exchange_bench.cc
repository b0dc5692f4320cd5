// What a member of a stage group computes in a direct exchange: its contributions, the sum of its
// shard, the others' results. By codec and number of members, on one core and without a network.
// Bytes per second are those of the vector as fp32; half of it is common to all members.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/adamw.h"
#include "replica/collective/exchange_coders.h"
#include "replica/collective/exchange_work.h"
#include "replica/parameter_slices.h"
#include "tests/bench/google_main.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kValues = 1 << 23;  // more than a core's cache holds

struct Codec {
  const char* name;
  const char* spec;
  bool feedback;
};
constexpr Codec kCodecs[] = {
    {"average", "raw:dtype=fp32", false},         {"bf16", "raw:dtype=bf16", true},
    {"dithered", "dithered:step=0.3", false},     {"qadam8", "direct:bits=8,bucket=1024", true},
    {"qadam4", "direct:bits=4,bucket=512", true}, {"onebit", "onebit:bucket=1024", true}};

// Two sets of error memories, of which each round reads one and writes the other.
struct Member {
  Buffer values{kValues * sizeof(float)};
  Buffer worker[2], server[2];
  Buffer result{kValues * sizeof(float)};
  RoundPlan plan;
  std::shared_ptr<const Buffer> own;  // `values`, for checks
  std::shared_ptr<LargestNorm> norms = std::make_shared<LargestNorm>();
  std::vector<std::vector<Buffer>> contributions;  // to the own shard, by chunk and member
  std::vector<std::vector<Buffer>> results;        // by owner and chunk

  static ChunkErrors Part(const Buffer& before, Buffer& next, std::size_t first,
                          std::size_t count) {
    if (next.empty()) return {};
    return {before.floats().subspan(first, count), next.floats().subspan(first, count)};
  }
  ChunkErrors Worker(ValueRange range, int turn) {
    return Part(worker[turn], worker[1 - turn], range.begin, range.size());
  }
  ChunkErrors Server(ValueRange range, int turn) {
    return Part(server[turn], server[1 - turn], range.begin - plan.layout.shard(plan.rank).begin,
                range.size());
  }
};

void Fill(Buffer* values, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (float& v : values->floats()) v = normal(random);
}

// Member 0 with messages as the others would send them.
Result<std::unique_ptr<Member>> MakeMember(const Codec& codec, std::size_t members) {
  auto member = std::make_unique<Member>();
  ExchangeConfig config;
  config.codec = codec.spec;
  config.error_feedback = codec.feedback;
  SHOAL_ASSIGN_OR_RETURN(const ExchangeCoders coders, CheckedCoders(config, members));
  RoundPlan& plan = member->plan;
  const std::vector<double> shares(members, 1.0);
  plan.layout = ShardLayout(kValues, shares, config.row, ChunkValues(config, coders));
  plan.contribution_coder = coders.contribution;
  plan.result_coder = coders.result;
  plan.method = coders.method;
  plan.combine = Combine::kWeightedMean;
  plan.weights.assign(members, 1);
  plan.weight = members;
  Fill(&member->values, 1);
  if (codec.feedback) {
    for (Buffer* memory : {&member->worker[0], &member->worker[1]}) {
      *memory = Buffer(kValues * sizeof(float));
      std::ranges::fill(memory->floats(), 0.0F);
    }
    for (Buffer* memory : {&member->server[0], &member->server[1]}) {
      *memory = Buffer(plan.layout.shard(0).size() * sizeof(float));
      std::ranges::fill(memory->floats(), 0.0F);
    }
  }
  member->results.resize(members);
  const std::span<const float> values = std::as_const(member->values).floats();
  for (std::size_t chunk = 0; chunk < plan.layout.chunks(0); ++chunk) {
    std::vector<Buffer> messages;
    for (plan.rank = 0; plan.rank < members; ++plan.rank) {
      Coded coded = EncodeContribution(plan, 0, chunk, values, {});
      SHOAL_RETURN_IF_ERROR(coded.status);
      messages.push_back(std::move(coded.message));
    }
    member->contributions.push_back(std::move(messages));
  }
  for (std::size_t owner = 1; owner < members; ++owner) {
    plan.rank = owner;
    for (std::size_t chunk = 0; chunk < plan.layout.chunks(owner); ++chunk) {
      std::vector<Buffer> messages;
      for (plan.rank = 0; plan.rank < members; ++plan.rank) {
        messages.push_back(EncodeContribution(plan, owner, chunk, values, {}).message);
      }
      plan.rank = owner;
      Coded coded = SumChunk(plan, chunk, messages, {}, {}, member->result.floats());
      SHOAL_RETURN_IF_ERROR(coded.status);
      member->results[owner].push_back(std::move(coded.message));
    }
  }
  plan.rank = 0;
  member->own = std::make_shared<const Buffer>(Buffer::CopyOf(member->values.bytes()));
  return member;
}

enum Part { kContributions = 1, kSums = 2, kResults = 4 };

Status Round(Member* member, int parts, int turn) {
  RoundPlan& plan = member->plan;
  plan.check = std::make_shared<const ContributionCheck>(member->own, &plan.home(), member->norms);
  const std::span<const float> values = std::as_const(member->values).floats();
  const std::span<float> result = member->result.floats();
  for (std::size_t owner = 0; owner < plan.layout.members(); ++owner) {
    for (std::size_t chunk = 0; chunk < plan.layout.chunks(owner); ++chunk) {
      const ValueRange range = plan.layout.chunk(owner, chunk);
      if ((parts & kContributions) != 0) {
        SHOAL_RETURN_IF_ERROR(
            EncodeContribution(plan, owner, chunk, values, member->Worker(range, turn)).status);
      }
      if (owner == 0 && (parts & kSums) != 0) {
        SHOAL_RETURN_IF_ERROR(SumChunk(plan, chunk, member->contributions[chunk], {},
                                       member->Server(range, turn), result)
                                  .status);
      }
      if (owner != 0 && (parts & kResults) != 0) {
        SHOAL_RETURN_IF_ERROR(
            DecodeResult(plan, owner, chunk, member->results[owner][chunk], result));
      }
    }
  }
  return Status::Ok();
}

// The last one that was asked for: parts of an exchange follow each other.
Result<Member*> MemberOf(const Codec& codec, std::size_t members) {
  static std::unique_ptr<Member> made;
  static std::pair<std::string, std::size_t> made_for;
  if (made_for != std::pair(std::string(codec.name), members)) {
    SHOAL_ASSIGN_OR_RETURN(made, MakeMember(codec, members));
    made_for = {codec.name, members};
  }
  return made.get();
}

void Exchange(benchmark::State& state, const Codec& codec, std::size_t members, int parts) {
  const auto member = MemberOf(codec, members);
  if (!member.ok()) return state.SkipWithError(member.status().ToString().c_str());
  int turn = 0;
  for (auto round : state) {
    const Status status = Round(*member, parts, turn);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    turn = 1 - turn;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(kValues * sizeof(float)) * state.iterations());
}

// What `qadam` and `onebit` do with the values before and behind the exchange.
enum class Around { kFold, kScale, kNorm, kUpdate };

void Momentum(benchmark::State& state, Around what) {
  optimizer::AdamWOptions options;
  options.learning_rate = 1e-4;
  const optimizer::AdamWStep step = optimizer::MakeFrozenStep(options, 100);
  Buffer gradient(kValues * sizeof(float)), momentum(gradient.size()), variance(gradient.size());
  Fill(&gradient, 1);
  Fill(&momentum, 2);
  std::ranges::fill(variance.floats(), 0.5F);
  for (auto round : state) {
    switch (what) {
      case Around::kFold:
        optimizer::FoldMomentum(step, gradient.floats(), momentum.floats());
        break;
      case Around::kScale:
        optimizer::ScaleFold(step, 0.9F, gradient.floats(), momentum.floats());
        break;
      case Around::kNorm:
        benchmark::DoNotOptimize(optimizer::SumOfSquares(momentum.floats()));
        break;
      case Around::kUpdate:
        optimizer::FrozenUpdate(step, momentum.floats(), variance.floats(), gradient.floats());
        break;
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(kValues * sizeof(float)) * state.iterations());
}

// What `marsit` does with all values of a stage around its exchange. It runs on the calling thread
// alone with new memory in every step, or with a helper and the memory of the step before.
enum class MarsitGroup { kFold, kUpdate };
constexpr std::size_t kStageValues = 1 << 25;  // more than the block pool keeps

struct MarsitMemory {
  Buffer input{kStageValues * sizeof(float)}, momentum{input.size()}, variance{input.size()};
};

void Marsit(benchmark::State& state, MarsitGroup what, bool helped) {
  const auto helper = NewThreadPool("helper", 1);
  optimizer::AdamWOptions options;
  options.learning_rate = 1e-4;
  const optimizer::AdamWStep step = optimizer::MakeFrozenStep(options, 100);
  std::vector<model::TensorLayout> tensors(1);
  tensors[0].size = kStageValues;
  MarsitMemory from, kept;
  Fill(&from.input, 1);
  Fill(&from.momentum, 2);
  std::ranges::fill(from.variance.floats(), 0.5F);
  for (auto round : state) {
    std::optional<MarsitMemory> fresh;
    MarsitMemory& to = helped ? kept : fresh.emplace();
    const auto work = [&](const replica::TensorSlice& slice) {
      const auto of = [&slice](Buffer& all) {
        return all.floats().subspan(slice.first, slice.values);
      };
      std::ranges::copy(of(from.variance), of(to.variance).begin());
      std::ranges::copy(of(from.input), of(to.input).begin());
      if (what == MarsitGroup::kFold) {
        std::ranges::copy(of(from.momentum), of(to.momentum).begin());
        optimizer::FoldMomentum(step, of(to.input), of(to.momentum));
        optimizer::AdamDirection(step, of(to.momentum), of(to.variance), of(to.input));
      }
      double sum = 0;
      for (float& value : of(to.input)) {
        sum += std::abs(value);
        value *= 0.7F;
      }
      return sum + (what == MarsitGroup::kFold ? 0 : optimizer::SumOfSquares(of(to.variance)));
    };
    Executor* const helpers = helped ? helper.get() : nullptr;
    benchmark::DoNotOptimize(replica::ForSlices(helpers, "bench", tensors, work));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(kStageValues * sizeof(float)) *
                          state.iterations());
}

const bool kRegistered = [] {
  for (const auto& [name, what] :
       {std::pair{"fold", MarsitGroup::kFold}, std::pair{"update", MarsitGroup::kUpdate}}) {
    for (const bool helped : {false, true}) {
      const std::string title =
          std::string("marsit/") + name + (helped ? "/helper,kept_memory" : "/alone,new_memory");
      benchmark::RegisterBenchmark(title.c_str(), Marsit, what, helped)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    }
  }
  for (const auto& [name, what] :
       {std::pair{"fold", Around::kFold}, std::pair{"scale", Around::kScale},
        std::pair{"norm", Around::kNorm}, std::pair{"update", Around::kUpdate}}) {
    const std::string title = std::string("momentum/") + name;
    benchmark::RegisterBenchmark(title.c_str(), Momentum, what)->Unit(benchmark::kMillisecond);
  }
  for (const Codec& codec : kCodecs) {
    for (const std::size_t members : {2, 8}) {
      for (const auto& [name, parts] :
           {std::pair{"contributions", int{kContributions}}, std::pair{"sums", int{kSums}},
            std::pair{"results", int{kResults}},
            std::pair{"all", kContributions | kSums | kResults}}) {
        const std::string title =
            std::string(codec.name) + "/" + std::to_string(members) + "/" + name;
        benchmark::RegisterBenchmark(title.c_str(), Exchange, codec, members, parts)
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace shoal::collective

int main(int argc, char** argv) {
  return shoal::bench_command::RunGoogleBenchmarks(
      {.name = "exchange",
       .measures = "What a member of a stage group computes for an exchange of gradients, by codec "
                   "and number of "
                   "members, on one core and without a network. Bytes per second are those of the "
                   "vector as fp32.",
       .needs = "a gigabyte of memory.",
       .takes = "some minutes; --filter picks.",
       .bounds = "all cases ran; it has no bounds"},
      argc, argv);
}
