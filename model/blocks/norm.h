// Layer norm (Ba et al., 2016) and RMS norm (Zhang and Sennrich, 2019), always in fp32.

#ifndef SHOAL_MODEL_BLOCKS_NORM_H_
#define SHOAL_MODEL_BLOCKS_NORM_H_

#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

class Norm {
 public:
  // What a micro-batch keeps between forward and the halves of backward.
  struct Kept {
    at::Tensor input;                           // fp32 [rows, size], until BackwardInput
    at::Tensor mean, reciprocal_deviation;      // a layer norm's
    at::Tensor weight_gradient, bias_gradient;  // this micro-batch's share

    void DropForwardOnly() { input = mean = reciprocal_deviation = at::Tensor(); }
  };

  Norm(const NormSpec& spec, const FindParameter& find);

  bool trained() const { return weight_.trained() || bias_.trained(); }
  // `x` fp32 [..., size] to the same shape.
  at::Tensor Forward(const at::Tensor& x, Kept* kept) const;
  // `gradient` of any dtype; returns fp32.
  at::Tensor BackwardInput(const at::Tensor& gradient, Kept* kept) const;
  void BackwardWeights(const Kept& kept) const;

 private:
  at::Tensor Factor() const;

  NormKind kind_;
  double epsilon_;
  bool around_one_;
  std::int64_t size_;
  Parameter weight_, bias_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_NORM_H_
