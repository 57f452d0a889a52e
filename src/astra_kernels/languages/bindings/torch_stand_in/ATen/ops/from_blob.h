#pragma once
#include "../../astra/torch.h"
