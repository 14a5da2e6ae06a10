// Nothing of it is needed: see README.md in two folders above.
#pragma once
