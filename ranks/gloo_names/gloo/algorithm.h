// Nothing of it is needed: see README.md in the folder above.
#pragma once
