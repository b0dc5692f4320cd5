// Descriptor: an open file that closes itself. Internal to storage/.

#ifndef SHOAL_STORAGE_FILES_DESCRIPTOR_H_
#define SHOAL_STORAGE_FILES_DESCRIPTOR_H_

namespace shoal::storage {

class Descriptor {
 public:
  // Takes the file over; negative: none.
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_DESCRIPTOR_H_
