/* Post-processing alone: the outputs of sample 0 of a project, as text. */
#include <cstdio>
#include <cstdlib>

#include "image.h"
#include "model.h"
#include "postprocess.h"

int main(int, char **words) try {
  std::vector<Tensor> outputs;
  const std::string data = words[1];
  for (size_t i = 0; i < OutputSpecs().size(); i++)
    outputs.push_back(ReadNpy(data + "/sample0/output" + std::to_string(i) + ".npy"));
  std::printf("%s\n", Postprocess(outputs, data, Placement()).c_str());
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
