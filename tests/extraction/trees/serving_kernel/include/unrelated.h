#pragma once

struct NobodyNeedsThis {};
