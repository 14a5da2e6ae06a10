#include "kernels/fast_weights/vector_decay/reference.h"

#include <cmath>
#include <cstddef>

namespace engram {
namespace {

// The elements of one row and head.
struct Elements {
  const VectorDecayReferenceInput& in;
  int row, head;

  std::size_t at(int t, int width, int channel) const {
    return ((static_cast<std::size_t>(row) * in.time + t) * in.heads + head) * width + channel;
  }
  std::size_t key(int t, int i) const { return at(t, in.key_width, i); }
  std::size_t value(int t, int j) const { return at(t, in.value_width, j); }
  std::size_t strength(int t) const { return at(t, 1, 0); }
};

// The steps of one row and head, and S behind each: [length + 1, K, V], the first before step 0.
class Sequence : public Elements {
 public:
  Sequence(const VectorDecayReferenceInput& in, int row, int head) : Elements{in, row, head} {
    states_.resize(static_cast<std::size_t>(in.length_B[row] + 1) * in.key_width * in.value_width);
    for (int t = 0; t < in.length_B[row]; ++t)
      for (int i = 0; i < in.key_width; ++i)
        for (int j = 0; j < in.value_width; ++j)
          states_[state(t + 1, i, j)] =
              decay(t, i) * states_[state(t, i, j)] + in.key_BTHK[key(t, i)] * in.value_BTHV[value(t, j)];
  }
  double decay(int t, int i) const { return std::exp(in.log_decay_BTHK[key(t, i)]); }
  double before(int t, int i, int j) const { return states_[state(t, i, j)]; }
  double after(int t, int i, int j) const { return states_[state(t + 1, i, j)]; }

 private:
  std::size_t state(int t, int i, int j) const {
    return (static_cast<std::size_t>(t) * in.key_width + i) * in.value_width + j;
  }

  std::vector<double> states_;
};

}  // namespace

std::vector<double> vector_decay_reference(const VectorDecayReferenceInput& in) {
  std::vector<double> output_BTHV(in.value_BTHV.size());
  for (int row = 0; row < in.batch; ++row) {
    for (int head = 0; head < in.heads; ++head) {
      const Sequence sequence(in, row, head);
      for (int t = 0; t < in.length_B[row]; ++t)
        for (int j = 0; j < in.value_width; ++j)
          for (int i = 0; i < in.key_width; ++i)
            output_BTHV[sequence.value(t, j)] += in.scale * in.query_BTHK[sequence.key(t, i)] * sequence.after(t, i, j);
    }
  }
  return output_BTHV;
}

VectorDecayReferenceGradient vector_decay_reference_backward(const VectorDecayReferenceInput& in,
                                                             const std::vector<double>& output_gradient_BTHV) {
  const std::size_t keys = in.key_BTHK.size();
  VectorDecayReferenceGradient d{std::vector<double>(keys), std::vector<double>(keys),
                                 std::vector<double>(in.value_BTHV.size()), std::vector<double>(keys)};
  for (int row = 0; row < in.batch; ++row) {
    for (int head = 0; head < in.heads; ++head) {
      const Sequence sequence(in, row, head);
      std::vector<double> d_state_KV(static_cast<std::size_t>(in.key_width) * in.value_width);
      for (int t = in.length_B[row] - 1; t >= 0; --t) {
        for (int i = 0; i < in.key_width; ++i) {
          const std::size_t key = sequence.key(t, i);
          for (int j = 0; j < in.value_width; ++j) {
            const std::size_t value = sequence.value(t, j);
            const double d_output = in.scale * output_gradient_BTHV[value];
            double& d_state = d_state_KV[static_cast<std::size_t>(i) * in.value_width + j];
            d.query_BTHK[key] += d_output * sequence.after(t, i, j);
            d_state += d_output * in.query_BTHK[key];
            d.key_BTHK[key] += d_state * in.value_BTHV[value];
            d.value_BTHV[value] += d_state * in.key_BTHK[key];
            d_state *= sequence.decay(t, i);
            d.log_decay_BTHK[key] += d_state * sequence.before(t, i, j);
          }
        }
      }
    }
  }
  return d;
}

namespace {

// work(elements, length) for each row and head.
template <class Work>
void for_each_head(const VectorDecayReferenceInput& in, const Work& work) {
  for (int row = 0; row < in.batch; ++row)
    for (int head = 0; head < in.heads; ++head) work(Elements{in, row, head}, in.length_B[row]);
}

}  // namespace

VectorDeltaReference vector_delta_reference(const VectorDecayReferenceInput& in,
                                            const std::vector<double>& strength_BTH) {
  VectorDeltaReference out{std::vector<double>(in.value_BTHV.size()), std::vector<double>(in.value_BTHV.size())};
  for_each_head(in, [&](const Elements& x, int length) {
    for (int j = 0; j < in.value_width; ++j) {
      std::vector<double> s_K(in.key_width);  // a column of S
      for (int t = 0; t < length; ++t) {
        double& error = out.error_BTHV[x.value(t, j)] = in.value_BTHV[x.value(t, j)];
        for (int i = 0; i < in.key_width; ++i) {
          s_K[i] *= std::exp(in.log_decay_BTHK[x.key(t, i)]);
          error -= s_K[i] * in.key_BTHK[x.key(t, i)];
        }
        for (int i = 0; i < in.key_width; ++i) {
          s_K[i] += in.key_BTHK[x.key(t, i)] * strength_BTH[x.strength(t)] * error;
          out.output_BTHV[x.value(t, j)] += in.scale * in.query_BTHK[x.key(t, i)] * s_K[i];
        }
      }
    }
  });
  return out;
}

std::vector<double> vector_delta_reference_backward(const VectorDecayReferenceInput& in,
                                                    const std::vector<double>& strength_BTH,
                                                    const std::vector<double>& output_gradient_BTHV) {
  std::vector<double> d_written_BTHV(in.value_BTHV.size());
  for_each_head(in, [&](const Elements& x, int length) {
    for (int j = 0; j < in.value_width; ++j) {
      std::vector<double> d_s_K(in.key_width);  // of a column of S
      for (int t = length - 1; t >= 0; --t) {
        double& d_written = d_written_BTHV[x.value(t, j)];
        for (int i = 0; i < in.key_width; ++i) {
          d_s_K[i] += in.scale * in.query_BTHK[x.key(t, i)] * output_gradient_BTHV[x.value(t, j)];
          d_written += in.key_BTHK[x.key(t, i)] * d_s_K[i];
        }
        for (int i = 0; i < in.key_width; ++i)
          d_s_K[i] = std::exp(in.log_decay_BTHK[x.key(t, i)]) *
                     (d_s_K[i] - in.key_BTHK[x.key(t, i)] * strength_BTH[x.strength(t)] * d_written);
      }
    }
  });
  return d_written_BTHV;
}

}  // namespace engram
