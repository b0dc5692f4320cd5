#include "compression/api/codec.h"

#include <cmath>
#include <string>

#include "compression/api/codec_spec.h"

namespace shoal::compression {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? std::sqrt(part / whole) : 0.0; }

}  // namespace

std::string_view DeltaModeName(DeltaMode mode) {
  switch (mode) {
    case DeltaMode::kDelta: return "delta";
    case DeltaMode::kWideDelta: return "wide delta";
    case DeltaMode::kFull: return "full";
  }
  return "unknown";
}

void CodingStats::Add(const CodingStats& other) {
  values += other.values;
  errors += other.errors;
  changes.Add(other.changes);
}
double CodingStats::relative_error() const { return Ratio(errors, values); }

Status CheckDirections(const MessageCodec& forward, const MessageCodec& backward) {
  if (forward.keeps_residual()) {
    const std::string inner = WithoutOptions(forward.spec(), {"feedback"});
    return InvalidArgument("forward codec " + forward.spec() +
                           " feeds back what it did not send, which is for gradients; for "
                           "activations take aqsgd:delta=" +
                           Nested(inner) + ", whose m does that");
  }
  if (forward.stateful() != nullptr) {
    return InvalidArgument("forward codec " + forward.spec() +
                           " is for gradients: training on low-rank activations diverges; take "
                           "aqsgd:bits=3");
  }
  if (backward.keeps_m()) {
    SHOAL_ASSIGN_OR_RETURN(const CodecTraits traits, TraitsOf(backward.spec()));
    if (!traits.unbiased) {
      return InvalidArgument("backward codec " + backward.spec() +
                             " is not right on average, so errors of gradients would add up; take "
                             "delta=dithered:step=0.4/channels=on/of=values and dithered for "
                             "first_visit=");
    }
  }
  return Status::Ok();
}

}  // namespace shoal::compression
