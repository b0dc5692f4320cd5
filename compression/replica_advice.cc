#include "compression/replica_advice.h"

#include <cstdio>

#include "common/status.h"

namespace shoal::compression {
namespace {

struct Known {
  const char* method;
  double bits;
};

// From the least loss to the fewest bytes.
constexpr Known kMethods[] = {
    {"average", 32},
    {"average:dtype=bf16", 16},
    {"qadam:bits=4", 4 + 16.0 / 512},
    {"onebit", 1 + 32.0 / 1024},
};
// Headers of messages, chunks, TLS and TCP.
constexpr double kOverhead = 1.05;

std::string Seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

}  // namespace

std::vector<ReplicaOffer> ReplicaOffers(std::uint32_t pipelines, std::uint64_t values,
                                        double bits_per_second) {
  SHOAL_CHECK(bits_per_second > 0);
  std::vector<ReplicaOffer> offers;
  if (pipelines < 2) return offers;
  // Contributions to the owners and sums back: each member sends (D - 1) / D of the vector twice.
  const double parts = 2.0 * (pipelines - 1) / pipelines;
  for (const Known& known : kMethods) {
    const double bits = parts * known.bits * static_cast<double>(values) * kOverhead;
    offers.push_back({known.method, known.bits, bits / bits_per_second});
  }
  return offers;
}

const ReplicaOffer& SuggestReplica(const std::vector<ReplicaOffer>& offers) {
  SHOAL_CHECK(!offers.empty());
  for (const ReplicaOffer& offer : offers) {
    if (offer.seconds <= kExchangeSecondsGood) return offer;
  }
  return offers.back();
}

std::string DescribeReplicaOffers(const std::vector<ReplicaOffer>& offers, std::uint64_t values,
                                  const std::string& rate) {
  if (offers.empty()) return "";
  char millions[32];
  std::snprintf(millions, sizeof(millions), "%.1f", static_cast<double>(values) * 1e-6);
  std::string text = "pipelines agree on " + std::string(millions) +
                     " million values of the largest stage after every step; over lines of " +
                     rate + " that takes";
  for (const ReplicaOffer& offer : offers) {
    text +=
        (&offer == &offers.front() ? " " : ", ") + Seconds(offer.seconds) + " with " + offer.method;
  }
  const ReplicaOffer& best = SuggestReplica(offers);
  text += "\nsuggested: --replica " + best.method;
  if (best.seconds > kExchangeSecondsGood) {
    return text + ", the fewest bytes; more stages make an exchange shorter\n";
  }
  return text + ", the least loss within " + Seconds(kExchangeSecondsGood) + "\n";
}

}  // namespace shoal::compression
