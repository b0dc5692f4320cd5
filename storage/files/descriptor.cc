#include "storage/files/descriptor.h"

#include <unistd.h>

namespace shoal::storage {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace shoal::storage
