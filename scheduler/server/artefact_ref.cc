#include "scheduler/server/artefact_ref.h"

#include <algorithm>

namespace shoal::scheduler {

storage::ArtefactRef FromProto(const control::v1::ArtefactRef& proto) {
  storage::ArtefactRef ref;
  ref.name = proto.name();
  ref.size = proto.size();
  const std::size_t size = std::min(proto.hash().size(), ref.hash.digest.size());
  std::copy_n(proto.hash().begin(), size, ref.hash.digest.begin());
  return ref;
}

}  // namespace shoal::scheduler
