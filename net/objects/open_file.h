// OpenFile: a descriptor that closes itself. Internal to this room.

#ifndef SHOAL_NET_OBJECTS_OPEN_FILE_H_
#define SHOAL_NET_OBJECTS_OPEN_FILE_H_

namespace shoal::net {

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_OPEN_FILE_H_
