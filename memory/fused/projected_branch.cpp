#include "memory/fused/projected_branch.h"

#include <cstddef>

#include "nn/fused/rows.h"
#include "nn/fused/weights/packed_weights.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {

using torch::Tensor;

HeadShape::HeadShape(std::int64_t width, std::int64_t heads)
    : width(static_cast<int>(width)),
      heads(static_cast<int>(heads)),
      channels(static_cast<int>(width / heads)),
      padded(round_up(channels, kVectorElements)),
      part(static_cast<int>(heads) * padded) {}

int Projection::add_by_head(const AffineWeights& map) {
  const int outputs = static_cast<int>(map.weight_OI.size(0));
  maps_.push_back({map, columns_, {outputs, shape_.channels, shape_.padded}});
  return std::exchange(columns_, columns_ + outputs / shape_.channels * shape_.padded);
}

int Projection::add(const Tensor& weight_OD) {
  const int outputs = static_cast<int>(weight_OD.size(0));
  maps_.push_back({{weight_OD, {}}, columns_, padded_to(outputs, outputs)});
  return std::exchange(columns_, columns_ + outputs);
}

void Projection::pad() { columns_ = round_up(columns_, kVectorElements); }

namespace {

// The maps before and after a core.
class CoreMaps {
 public:
  CoreMaps(const Projection& projection, const AffineWeights& output)
      : shape_(projection.shape()),
        columns_(projection.columns()),
        has_bias_(output.bias_O.defined()),
        input_packed_(columns_, padded_width()),
        input_bias_packed_(columns_ / shape_.part, shape_.part),
        output_packed_(padded_width(), shape_.part),
        output_bias_packed_(1, padded_width()) {
    TORCH_CHECK(columns_ % kVectorElements == 0, columns_, " columns of a projection");
    const PackGroups by_head{shape_.width, shape_.channels, shape_.padded}, one = padded_to(1, 1);
    const PackGroups by_row = padded_to(shape_.width, padded_width());
    for (const Projection::Map& map : projection.maps()) {
      input_packed_.add(map.weights.weight_OI, map.column, map.outputs, by_row);
      TORCH_CHECK(map.weights.bias_O.defined() == has_bias_, "a map without a bias beside one with a bias");
      if (has_bias_) input_bias_packed_.add(map.weights.bias_O, map.column / shape_.part, one, by_head);
    }
    output_packed_.add(output.weight_OI, 0, by_row, by_head);
    if (has_bias_) output_bias_packed_.add(output.bias_O, 0, one, by_row);
  }

  void pack(WeightPacking& packing) {
    input_weight_ = packing.add(input_packed_);
    output_weight_ = packing.add(output_packed_);
    if (!has_bias_) return;
    input_bias_ = packing.add(input_bias_packed_).view({-1});
    output_bias_ = packing.add(output_bias_packed_).view({-1});
  }

  Tensor project(const Tensor& normed_MP) const {
    return has_bias_ ? torch::addmm(input_bias_, normed_MP, input_weight_.t()) : product(normed_MP, input_weight_.t());
  }
  Tensor output(const Tensor& mixed_MP) const {
    return has_bias_ ? torch::addmm(output_bias_, mixed_MP, output_weight_.t()) : product(mixed_MP, output_weight_.t());
  }

  // Of the output map, weight [and bias]; the gradient of the output must live until the side is done.
  std::vector<Tensor> output_gradients(const Tensor& d_output_MP, const Tensor& mixed_MP, SideWork& side) const {
    Tensor d_weight;
    side.run([&] { d_weight = weight_gradient(d_output_MP, mixed_MP); });
    std::vector<Tensor> gradients = output_packed_.gradients(d_weight, side);
    if (has_bias_) gradients.push_back(column_sums(d_output_MP, side).narrow(0, 0, shape_.width));
    return gradients;
  }
  Tensor mixed_gradient(const Tensor& d_output_MP) const { return product(d_output_MP, output_weight_); }

  // Of the input's maps, each weight [and its bias], likewise.
  std::vector<Tensor> input_gradients(const Tensor& d_projected_MC, const Tensor& normed_MP, SideWork& side) const {
    Tensor d_weight;
    side.run([&] { d_weight = weight_gradient(d_projected_MC, normed_MP); });
    if (!has_bias_) return input_packed_.gradients(d_weight, side);
    const Tensor d_bias = column_sums(d_projected_MC, side);
    side.make_sums();  // what the gradients of the biases, by head, are made of
    const std::vector<Tensor> weights = input_packed_.gradients(d_weight, side),
                              biases = input_bias_packed_.gradients(d_bias, side);
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < weights.size(); ++i) gradients.insert(gradients.end(), {weights[i], biases[i]});
    return gradients;
  }
  Tensor normed_gradient(const Tensor& d_projected_MC) const { return product(d_projected_MC, input_weight_); }

 private:
  int padded_width() const { return round_up(shape_.width, kWidthMultiple); }

  HeadShape shape_;
  int columns_;
  bool has_bias_;
  PackedWeights input_packed_, input_bias_packed_, output_packed_, output_bias_packed_;
  Tensor input_weight_, input_bias_, output_weight_, output_bias_;
};

std::vector<Tensor> parameters_of(const Core& core, const AffineWeights& output) {
  std::vector<Tensor> list;
  for (const Projection::Map& map : core.projection().maps()) {
    const std::vector<Tensor> own = list_of({map.weights});
    list.insert(list.end(), own.begin(), own.end());
  }
  list.insert(list.end(), core.parameters().begin(), core.parameters().end());
  const std::vector<Tensor> last = list_of({output});
  list.insert(list.end(), last.begin(), last.end());
  return list;
}

class ProjectedBranch : public Branch {
 public:
  ProjectedBranch(std::unique_ptr<Core> core, const AffineWeights& output)
      : Branch(parameters_of(*core, output)), core_(std::move(core)), maps_(core_->projection(), output) {}

  void pack_weights(WeightPacking& packing) override { maps_.pack(packing); }

  Tensor forward(const Tensor& normed_MP) override {
    normed_MP_ = normed_MP;
    mixed_MP_ = core_->forward(maps_.project(normed_MP));
    return maps_.output(mixed_MP_);
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    const std::vector<Tensor> of_output = maps_.output_gradients(d_output_MP, mixed_MP_, side);
    const Core::Gradients core = core_->backward(maps_.mixed_gradient(d_output_MP), side);
    side.keep({d_output_MP, core.projected_MC});
    const std::vector<Tensor> of_input = maps_.input_gradients(core.projected_MC, normed_MP_, side);
    Gradients gradients{maps_.normed_gradient(core.projected_MC), of_input};
    for (const std::vector<Tensor>* rest : {&core.parameters, &of_output})
      gradients.parameters.insert(gradients.parameters.end(), rest->begin(), rest->end());
    return gradients;
  }

 private:
  std::unique_ptr<Core> core_;
  CoreMaps maps_;
  Tensor normed_MP_, mixed_MP_;
};

class ProjectedForwardBranch : public ForwardBranch {
 public:
  ProjectedForwardBranch(std::unique_ptr<ForwardCore> core, const AffineWeights& output)
      : core_(std::move(core)), maps_(core_->projection(), output) {}

  void pack_weights(WeightPacking& packing) override { maps_.pack(packing); }
  Tensor forward(const Tensor& normed_MP) override { return maps_.output(core_->forward(maps_.project(normed_MP))); }

 private:
  std::unique_ptr<ForwardCore> core_;
  CoreMaps maps_;
};

}  // namespace

std::unique_ptr<Branch> projected_branch(std::unique_ptr<Core> core, const AffineWeights& output) {
  return std::make_unique<ProjectedBranch>(std::move(core), output);
}

std::unique_ptr<ForwardBranch> projected_forward_branch(std::unique_ptr<ForwardCore> core,
                                                        const AffineWeights& output) {
  return std::make_unique<ProjectedForwardBranch>(std::move(core), output);
}

}  // namespace engram::cuda
