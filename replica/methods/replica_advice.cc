#include "replica/methods/replica_advice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <span>

#include "common/status.h"
#include "common/units.h"
#include "replica/methods/method_registry.h"

namespace shoal::replica {
namespace {

constexpr std::uint32_t kLocalMeasured = 16;
// Headers of messages, chunks, TLS and TCP.
constexpr double kOverhead = 1.05;

template <typename... Args>
std::string Text(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof(text), format, args...);
  return text;
}

std::string Seconds(double seconds) {
  if (seconds < 0.0995) return Text("%.0f ms", 1e3 * seconds);
  return Text(seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
}

std::string Percent(double part) { return Text(part < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * part); }

std::string Loss(double part) { return Text("%+.2f %%", 100 * part); }

// What the methods offer for a use, from the most bytes to the fewest.
std::vector<MethodOffer> OffersFor(OfferedFor use) {
  std::vector<MethodOffer> offers;
  for (const MethodEntry* const entry : Methods()) {
    for (const MethodOffer& offer : entry->offers) {
      if (offer.use == use) offers.push_back(offer);
    }
  }
  std::ranges::stable_sort(offers, std::ranges::greater(), &MethodOffer::bits);
  return offers;
}

// Those of every step come first.
std::span<const ReplicaOffer> OfEveryStep(const std::vector<ReplicaOffer>& offers) {
  const auto end = std::ranges::find_if(offers, [](const auto& offer) { return offer.every > 1; });
  return {offers.begin(), end};
}

// The one of the fewest bytes that has no fewer bits than `bits`.
const ReplicaOffer& NoFewerBits(const std::vector<ReplicaOffer>& offers, double bits) {
  const std::span<const ReplicaOffer> every = OfEveryStep(offers);
  const auto end =
      std::ranges::find_if(every, [&](const auto& offer) { return offer.bits < bits; });
  SHOAL_CHECK(end != every.begin());
  return *std::prev(end);
}

std::uint64_t StateBytes(const ReplicaCase& run, const std::string& method) {
  const auto parsed = ParseReplicaMethod(method);
  return parsed.ok() ? parsed->StateBytes(run.values, run.pipelines, run.bf16, run.largest_unit)
                     : 0;
}

bool Fits(const ReplicaCase& run, std::uint64_t bytes) {
  return run.memory_bytes == 0 || bytes <= run.memory_bytes;
}

// Nothing that the run's lines and steps ask for has room.
ReplicaSuggestion SuggestSmall(const ReplicaCase& run, const std::vector<ReplicaOffer>& offers) {
  const std::string most = FormatBytes(offers.front().bytes) +
                           " of weights, gradients and moments do not fit into " +
                           FormatBytes(run.memory_bytes);
  for (const ReplicaOffer& offer : offers) {
    const auto parsed = ParseReplicaMethod(offer.method);
    if (!parsed.ok() || !parsed->traits.shards_moments || !Fits(run, offer.bytes)) continue;
    return {offer.method, most + "; with " + std::string(parsed->entry->name) +
                              " the members of a stage group share the moments, " +
                              FormatBytes(offer.bytes) + " each"};
  }
  for (const MethodOffer& offer : OffersFor(OfferedFor::kSmallMemory)) {
    const std::string method(offer.spec);
    const std::uint64_t bytes = StateBytes(run, method);
    if (bytes == 0 || !Fits(run, bytes)) continue;
    return {
        method,
        most + "; this way the members of a stage group share all of it, " + FormatBytes(bytes) +
            " each\n  weights travel twice and gradients once in every micro-batch, so take few "
            "and large ones"};
  }
  return {"", most + "; take more stages (--stages), so that each is smaller"};
}

ReplicaSuggestion SuggestLocal(const ReplicaOffer& four, const ReplicaOffer& local) {
  std::string reason = "even at 4 bits a value an exchange (" + Seconds(four.seconds) +
                       ") takes longer than a step; so each pipeline makes " +
                       std::to_string(local.every) +
                       " steps on its own, then all take their mean, for " + Percent(local.share) +
                       " of the time\n  what it costs was measured with local_steps=" +
                       std::to_string(kLocalMeasured) + " only: held-out loss " + Loss(local.loss) +
                       ", training loss +3 %";
  if (local.share > 1.01 * kExchangeShareGood) {
    reason += "\n  more stages (--stages) would make an exchange shorter";
  }
  return {local.method, reason};
}

}  // namespace

std::vector<ReplicaOffer> ReplicaOffers(const ReplicaCase& run) {
  SHOAL_CHECK(run.bits_per_second > 0 && run.step_seconds > 0);
  std::vector<ReplicaOffer> offers;
  if (run.pipelines < 2) return offers;
  // Contributions to the owners and sums back: each member sends (D - 1) / D of the vector twice.
  const double sent = 2.0 * (run.pipelines - 1) / run.pipelines * static_cast<double>(run.values);
  const auto exchange = [&](double bits) { return sent * bits * kOverhead / run.bits_per_second; };
  const auto add = [&](const std::string& method, const MethodOffer& offer, std::uint32_t every) {
    const double seconds = exchange(offer.bits);
    const double share = seconds / (seconds + every * run.step_seconds);
    offers.push_back(
        {method, offer.bits, seconds, every, share, offer.loss, StateBytes(run, method)});
  };
  for (const MethodOffer& offer : OffersFor(OfferedFor::kEveryStep)) {
    add(std::string(offer.spec), offer, 1);
  }
  for (const MethodOffer& offer : OffersFor(OfferedFor::kLocalSteps)) {
    if (NoFewerBits(offers, offer.bits).share <= kExchangeShareGood) continue;
    const double steps =
        std::ceil(exchange(offer.bits) * (1 / kExchangeShareGood - 1) / run.step_seconds);
    const auto every = static_cast<std::uint32_t>(std::min<double>(steps, kAdvisedLocalStepsMax));
    const std::string option = "local_steps=" + std::to_string(every);
    add(compression::WithOptions(std::string(offer.spec), option), offer, every);
  }
  return offers;
}

ReplicaSuggestion SuggestReplica(const ReplicaCase& run, const std::vector<ReplicaOffer>& offers) {
  SHOAL_CHECK(!offers.empty());
  if (!Fits(run, offers.front().bytes)) return SuggestSmall(run, offers);
  for (const ReplicaOffer& offer : offers) {
    if (offer.every > 1 || offer.share > kExchangeShareGood) continue;
    return {
        offer.method,
        "it takes less than a tenth of the time, and of those that do it changes the loss least"};
  }
  const ReplicaOffer& local = offers.back();
  const ReplicaOffer& four = NoFewerBits(offers, local.bits);
  if (four.seconds > run.step_seconds) return SuggestLocal(four, local);
  return {OfEveryStep(offers).back().method,
          "it has the fewest bytes of those that exchange in every step; more stages (--stages) "
          "would make an exchange shorter"};
}

std::vector<std::string> ReplicaCautions(const std::string& method, std::uint32_t pipelines) {
  const auto parsed = ParseReplicaMethod(method);
  if (!parsed.ok() || parsed->entry->cautions == nullptr || pipelines < 2) return {};
  return parsed->entry->cautions(*parsed, pipelines);
}

std::string DescribeReplicaOffers(const ReplicaCase& run, const std::string& rate) {
  const std::vector<ReplicaOffer> offers = ReplicaOffers(run);
  if (offers.empty()) return "";
  const auto row = [](const std::string& method, const std::string& exchange,
                      const std::string& share, const std::string& loss, const std::string& bytes) {
    return Text("  %-56s  %-11s  %-11s  %-13s  %s\n", method.c_str(), exchange.c_str(),
                share.c_str(), loss.c_str(), bytes.c_str());
  };
  std::string text = Text(
                         "the %u pipelines exchange what they learned in a step, %.1f million "
                         "values of the largest stage;\n",
                         run.pipelines, static_cast<double>(run.values) * 1e-6) +
                     "over lines of " + rate + " (--link), where a step takes " +
                     Seconds(run.step_seconds) + " without that (--step):\n" +
                     row("--replica", "an exchange", "of the time", "held-out loss", "state");
  for (const ReplicaOffer& offer : offers) {
    text += row(offer.method, Seconds(offer.seconds), Percent(offer.share),
                Loss(offer.loss) + (offer.every > 1 ? " (16)" : ""), FormatBytes(offer.bytes));
  }
  text += "  held-out loss: as measured for a small model, against average";
  if (offers.back().every > 1) text += " (16: with local_steps=16)";
  text += "; state: weights, gradients and moments in a peer's memory\n";
  const ReplicaSuggestion best = SuggestReplica(run, offers);
  if (best.method.empty()) return text + "no method is suggested: " + best.reason + "\n";
  return text + "suggested: --replica " + best.method + "\n  " + best.reason + "\n";
}

}  // namespace shoal::replica
