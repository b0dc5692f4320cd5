// MetricFamilies: values with names and labels as Prometheus text, what `/metrics` answers.

#ifndef SHOAL_NET_HTTP_METRIC_FAMILIES_H_
#define SHOAL_NET_HTTP_METRIC_FAMILIES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shoal::net {

// Filled once and printed once; one thread. Metrics of one name are printed one after the other,
// with the help that the first of them gave.
class MetricFamilies {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  MetricFamilies();
  ~MetricFamilies();

  // Only grows while the process lives; `name` ends in _total.
  void Counter(const char* name, const char* help, double value, const Labels& labels = {});
  void Gauge(const char* name, const char* help, double value, const Labels& labels = {});
  std::string Text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_HTTP_METRIC_FAMILIES_H_
