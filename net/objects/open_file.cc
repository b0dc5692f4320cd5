#include "net/objects/open_file.h"

#include <unistd.h>

namespace shoal::net {

OpenFile::~OpenFile() { ::close(fd_); }

}  // namespace shoal::net
