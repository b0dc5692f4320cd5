// Files of both splits, and the rows that simulations train on.

#include "tests/unit/dataset/prepared_data_contract.h"

#include <string>

#include "common/file.h"
#include "dataset/prepare/prepare_data.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_stage.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

// Whose last rows are not full, in either split.
std::shared_ptr<const PreparedData> NewMapped() {
  test_support::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "fish number " + std::to_string(i) + " of the shoal\n";
  EXPECT_TRUE(WriteFileAtomic(folder / "train.txt", text).ok());
  EXPECT_TRUE(WriteFileAtomic(folder / "held_out.txt", text.substr(0, 333)).ok());
  PrepareOptions options;
  options.tokenizer_directory = TinyGpt2();
  options.text_files = {folder / "train.txt"};
  options.validation_files = {folder / "held_out.txt"};
  options.row_tokens = 17;
  options.output = folder / "data.shoal";
  options.threads = 1;
  const auto report = PrepareData(options);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  auto data = OpenPreparedData(options.output);
  EXPECT_TRUE(data.ok()) << data.status().ToString();
  return data.ok() ? *data : nullptr;
}

std::shared_ptr<const PreparedData> NewSamples(const std::string& line, bool pack,
                                               const std::string& tokenizer = TinyGpt2()) {
  test_support::TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    std::string numbered = line;
    for (std::size_t at; (at = numbered.find('#')) != std::string::npos;) {
      numbered.replace(at, 1, std::to_string(i * i % 7));
    }
    lines += numbered + "\n";
  }
  EXPECT_TRUE(WriteFileAtomic(folder / "a.jsonl", lines).ok());
  PrepareOptions options;
  options.tokenizer_directory = tokenizer;
  options.text_files = {folder / "a.jsonl"};
  options.row_tokens = 17;
  options.output = folder / "data.shoal";
  options.threads = 1;
  options.pack = pack;
  const auto report = PrepareData(options);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  auto data = OpenPreparedData(options.output);
  EXPECT_TRUE(data.ok()) << data.status().ToString();
  return data.ok() ? *data : nullptr;
}

constexpr char kCompletions[] = "{\"prompt\": \"fish #\", \"completion\": \" is # more\"}";
constexpr char kPairs[] = "{\"text\": \"a fish\", \"text_pair\": \"# more\", \"label\": #}";
constexpr char kClasses[] = "{\"text\": \"a fish and # more\", \"label\": #}";

INSTANTIATE_TEST_SUITE_P(Completions, PreparedDataContract,
                         testing::Values(
                             +[] { return NewSamples(kCompletions, false); },
                             +[] { return NewSamples(kCompletions, true); }));
INSTANTIATE_TEST_SUITE_P(Classes, PreparedDataContract,
                         testing::Values(+[] { return NewSamples(kClasses, false); }));
INSTANTIATE_TEST_SUITE_P(Pairs, PreparedDataContract, testing::Values(+[] {
                           return NewSamples(kPairs, false,
                                             Environment("SHOAL_TEST_DATA") + "/tokenizers/bert");
                         }));
INSTANTIATE_TEST_SUITE_P(Mapped, PreparedDataContract, testing::Values(&NewMapped));
INSTANTIATE_TEST_SUITE_P(Tiny, PreparedDataContract, testing::Values(+[] {
                           return test_support::NewTinyData(test_support::TinyShape(), 40);
                         }));

}  // namespace
}  // namespace shoal::dataset
