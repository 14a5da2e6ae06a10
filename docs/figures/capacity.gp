# The plots of retrieval over numbers of keys, from the tables beside this file:
#   cd docs/figures && gnuplot capacity.gp
set datafile separator ","
set terminal svg size 640,400 font "sans,12"
set key outside right
set xlabel "keys"
set ylabel "loss of the test"
set yrange [0:0.5]
loss(memory, column) = strcol(2) eq memory ? column : NaN

set output "capacity.svg"
memories = "softmax linear favor-128 dpfp-1 dpfp-2 dpfp-3"
plot for [i=1:words(memories)] "capacity.csv" using 1:(loss(word(memories, i), $3)) with linespoints lc i pt 7 ps 0.5 \
       title word(memories, i), \
     for [i=1:words(memories)] "capacity.csv" using 1:(loss(word(memories, i), $4)) with points lc i pt 6 notitle

set output "update_rules.svg"
set logscale y
set yrange [1e-4:0.6]
memories = "linear-sum linear-delta dpfp-1-sum dpfp-1-delta"
plot for [i=1:words(memories)] "update_rules.csv" using 1:(loss(word(memories, i), $3)) with linespoints lc i pt 7 ps 0.5 \
       title word(memories, i), \
     for [i=1:words(memories)] "update_rules.csv" using 1:(loss(word(memories, i), $4)) with points lc i pt 6 notitle
