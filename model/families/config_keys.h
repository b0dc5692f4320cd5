// ConfigKeys: config.json read key by key, so that no key that changes the result is ignored.
//
// A family reads the keys that it implements. Finish refuses, by name, a key that nobody read and
// that is not known to change nothing. The first failure is kept, and later reads give defaults.
// Thread: any one at a time.

#ifndef SHOAL_MODEL_FAMILIES_CONFIG_KEYS_H_
#define SHOAL_MODEL_FAMILIES_CONFIG_KEYS_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::model {

class ConfigKeys {
 public:
  // `name`: of the file, for messages. Text that is not a JSON object is an error.
  static Result<ConfigKeys> Parse(const std::string& text, const std::string& name);
  ~ConfigKeys();
  ConfigKeys(ConfigKeys&&) noexcept;

  // A key that is absent or null is not there.
  bool Has(const char* key) const;
  bool IsNull(const char* key) const;  // there, but null
  bool IsText(const char* key) const;
  // Whole numbers in [1, most]; without a default an absent key is a failure.
  std::uint32_t Count(const char* key, std::uint32_t most);
  std::uint32_t Count(const char* key, std::uint32_t most, std::uint32_t otherwise);
  double Number(const char* key, double otherwise, double least, double most);
  bool Flag(const char* key, bool otherwise);
  std::string Text(const char* key, const std::string& otherwise);
  std::vector<std::string> Texts(const char* key);
  // How many keys an object has.
  std::uint32_t Entries(const char* key, std::uint32_t most);
  // Of an object: its keys as "key.inner". What is no object is a failure, and gives an empty one.
  ConfigKeys Object(const char* key);
  // A key whose other values would change the arithmetic in a way that nobody here computes.
  void Require(const char* key, bool wanted);
  // Keys whose values change nothing here.
  void Ignore(std::initializer_list<std::string_view> keys);

  void Fail(const std::string& cause);
  const Status& status() const;
  // The first failure, one inside of an object among them; else a key that nobody read.
  Status Finish();

 private:
  struct State;
  explicit ConfigKeys(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_CONFIG_KEYS_H_
