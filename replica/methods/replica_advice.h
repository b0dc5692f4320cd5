// ReplicaAdvice: which `[replica] method` fits a run's number of pipelines, model, lines and
// memory.
//
// Loss and bits of the methods: docs/quality ("2 pipelines"). Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_REPLICA_ADVICE_H_
#define SHOAL_REPLICA_METHODS_REPLICA_ADVICE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::replica {

struct ReplicaCase {
  std::uint32_t pipelines = 1;
  std::uint64_t values = 0;        // of the largest stage
  std::uint64_t largest_unit = 0;  // of its values, as ReplicaMethod::StateBytes has it
  double bits_per_second = 0;      // of a member's line, each way; above 0
  double step_seconds = 30;        // of a step without the exchange; above 0
  std::uint64_t memory_bytes = 0;  // that a peer has for a stage's state; 0: not known
  bool bf16 = false;               // computes in it
};

struct ReplicaOffer {
  std::string method;       // as in a run file
  double bits = 32;         // a value, of each of the two ways
  double seconds = 0;       // of one exchange, if lines are all that limits it
  std::uint32_t every = 1;  // steps
  double share = 0;         // of the run's time that exchanges take, 0 to 1
  double loss = 0;          // held out, measured, relative to that of `average`
  std::uint64_t bytes = 0;  // ReplicaMethod::StateBytes
};

// An exchange that takes no more than this share of the time is quick enough.
inline constexpr double kExchangeShareGood = 0.1;
// The most steps on their own that are offered.
inline constexpr std::uint32_t kAdvisedLocalStepsMax = 500;

// The methods that are offered, each with fewer bytes a step than the one before; local steps are
// the last, as many as make the exchange quick enough, if 4 bits in every step are not. One
// pipeline: none.
std::vector<ReplicaOffer> ReplicaOffers(const ReplicaCase& run);

struct ReplicaSuggestion {
  std::string method;  // empty: none fits
  std::string reason;  // why, in a sentence or two
};
// The first offer that is quick enough; else signs, or, where even 4 bits take longer than a step,
// local steps. Where the state that most methods need does not fit the memory: what does, whatever
// the lines. `offers` are those of `run`, and some.
ReplicaSuggestion SuggestReplica(const ReplicaCase& run, const std::vector<ReplicaOffer>& offers);

// What is known to cost quality or bytes in a run's method, in a line each.
std::vector<std::string> ReplicaCautions(const std::string& method, std::uint32_t pipelines);

// What an exchange is, the offers as a table, and the suggestion, on lines of their own; `rate`:
// the line in words. "" with one pipeline.
std::string DescribeReplicaOffers(const ReplicaCase& run, const std::string& rate);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_REPLICA_ADVICE_H_
